"""`isocost drain`: give nodes no new requests and let the open ones end."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any

from isocost.cli.admin_client import (
    add_http_argument,
    add_why_argument,
    call,
    node_path,
    note,
    require_known,
)
from isocost.errors import StartError

SUMMARY = "give nodes no new requests; the open ones end by themselves"
EXAMPLES = """  isocost drain gpu-3 --why "firmware update"
  isocost drain gpu-3 gpu-4 --wait && ssh host-2 systemctl restart engine
  isocost undrain gpu-3 gpu-4
"""

_POLL_S = 0.5
#: A control plane that is being restarted is back sooner than this.
_PATIENCE_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="the nodes' names")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="show the open requests until there are none; 1 if they last too long",
    )
    add_why_argument(parser)
    add_http_argument(parser)


def run(args: argparse.Namespace) -> int:
    require_known(args.http, args.nodes)
    for node in args.nodes:
        call(args.http, "PUT", node_path(node, "drain"), note(args.why))
        print(f"{node}: gets no new requests", flush=True)
    if not args.wait:
        return 0
    try:
        return _wait(args.http, args.nodes)
    except KeyboardInterrupt:
        print(
            f"isocost: the drain goes on; to end it: isocost undrain {' '.join(args.nodes)}",
            file=sys.stderr,
        )
        raise


def _wait(http: str, nodes: list[str]) -> int:
    """Until every node is drained (0), or has not been in time or is no longer draining (1)."""
    told: dict[str, str] = {}
    heard_s = time.monotonic()
    while True:
        try:
            answer = call(http, "GET", "/v1/nodes")
        except StartError:
            if time.monotonic() - heard_s > _PATIENCE_S:
                raise
        else:
            heard_s = time.monotonic()
            rows = {row["name"]: row for row in answer["nodes"]}
            ends = []
            for node in nodes:
                text, end = _progress(rows.get(node))
                if told.get(node) != text:
                    told[node] = text
                    print(f"{node}: {text}", flush=True)
                ends.append(end)
            if None not in ends:
                return max(end for end in ends if end is not None)
        time.sleep(_POLL_S)


def _progress(row: Mapping[str, Any] | None) -> tuple[str, int | None]:
    """What to say of a node, and its exit code once it is decided."""
    if row is None:
        return "is not there any more", 1
    left = _left(row)
    if row["reason"] == "drained":
        return "drained", 0
    if row["reason"] == "drain_timed_out":
        return f"time-out with {left}; nothing is cut, and the drain goes on", 1
    if row["drain"] is None:
        return "somebody ended the drain", 1
    return left, None


def _left(row: Mapping[str, Any]) -> str:
    """What is open: the gateways' count, or the engine's where theirs is not known or is zero."""
    count = row["in_flight"]
    engine = [row["running"], row["waiting"]]
    if count:
        return f"{count} open request{'' if count == 1 else 's'}"
    if any(engine):
        told = f"{sum(value or 0 for value in engine):g} requests in the engine"
        return told if count is None else f"0 open requests at the gateways, {told}"
    if count is None:
        return "open requests not known: a gateway is silent"
    return "0 open requests" if None not in engine else "0 open requests at the gateways"
