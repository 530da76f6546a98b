"""The commands' way to the control plane's admin API."""

from __future__ import annotations

import argparse
import getpass
import http.client
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from isocost.errors import RejectedError, StartError
from isocost.output import named

DEFAULT_HTTP = "127.0.0.1:18080"
_TIMEOUT_S = 5.0
#: The environment's proxy is for other machines.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _endpoint(value: str) -> str:
    """As HOST:PORT; the way in which browsers and `isocost bench` name it will do."""
    from isocost.config_fields import endpoint

    try:
        return endpoint(value.removeprefix("http://").removesuffix("/"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{value!r} is not allowed; it must be HOST:PORT or http://HOST:PORT, like "
            f"{DEFAULT_HTTP}"
        ) from error


def add_http_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=_endpoint,
        default=DEFAULT_HTTP,
        help=f"the control plane's HTTP address (default {DEFAULT_HTTP})",
    )


def add_why_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--why", metavar="TEXT", default="", help="the reason, shown by `isocost nodes`"
    )


def note(why: str) -> dict[str, str]:
    """Who gives an order, and why."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A user id without a name, as in many containers.
        user = f"uid-{os.getuid()}"
    return {"who": f"{user}@{socket.gethostname()}", "why": why}


def node_path(node: str, what: str) -> str:
    # Of an argument that is not UTF-8 the bytes are sent as they are: no node is called that.
    return f"/v1/nodes/{quote(node, safe='', errors='surrogateescape')}/{what}"


def call(address: str, method: str, path: str, body: object = None) -> Any:
    """One call of the admin API; RejectedError carries its message, StartError says unreachable."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(
            f"http://{address}{path}", data, {"content-type": "application/json"}, method=method
        )
        with _opener.open(request, timeout=_TIMEOUT_S) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode(errors="replace")
        try:
            message = json.loads(text)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            message = f"HTTP {error.code}: {text[:200]}"
        # 5xx: the order was good, the control plane could not carry it out.
        raise (StartError if error.code >= 500 else RejectedError)(message) from error
    except http.client.BadStatusLine as error:
        # Whatever it said may be binary: not for a terminal.
        raise StartError(f"what answers at {address} is no control plane (--http)") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise StartError(f"no control plane answers at {address}: {error} (--http)") from error


def require_known(address: str, nodes: Sequence[str]) -> None:
    """RejectedError unless every node is known: an order is for all of them or for none."""
    answer = call(address, "GET", "/v1/nodes")
    known = [row["name"] for row in (*answer["nodes"], *answer["unseen"])]
    unknown = [node for node in nodes if node not in known]
    if unknown:
        raise RejectedError(f"there is no node {unknown[0]!r}; known: {named(known) or 'none'}")
