"""What is measured: a gateway or an engine with an OpenAI-compatible API."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

from isocost.errors import RejectedError, StartError

_CHAT_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Target:
    """A name for the report, and a base URL; /v1 or the whole path may be at its end."""

    name: str
    url: str

    @property
    def chat_url(self) -> str:
        base = self.url.rstrip("/").removesuffix(_CHAT_PATH).removesuffix("/v1")
        return base + _CHAT_PATH


def parse_target(name: str, url: str, option: str = "--url") -> Target:
    """RejectedError, with the ``option`` that gave it, where ``url`` is no base URL."""
    if "@" in (url.partition("://")[2] or url).partition("/")[0]:
        # It would stand in the report; nor does it belong into this error.
        raise RejectedError(
            f"{option}: a URL with a user or a password is not allowed; give them as a header: "
            "--header 'Authorization: Basic ...'"
        )
    if not _is_base_url(url):
        raise RejectedError(
            f"{option} {url!r} is not allowed; it must be a base URL like http://127.0.0.1:10000"
        )
    return Target(name, url)


def parse_control_plane(address: str) -> str:
    """The base URL of a control plane, which may be given as HOST:PORT. RejectedError as above."""
    url = address if "://" in address else f"http://{address}"
    if "@" in url:
        raise RejectedError("--control-plane: a URL with a user or a password is not allowed")
    if not _is_base_url(url):
        raise RejectedError(
            f"--control-plane {address!r} is not allowed; it must be HOST:PORT or a base URL like "
            "http://127.0.0.1:18080"
        )
    return url


def _is_base_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        # ValueError for parts that no name can have, empty or longer than 63 letters.
        (parts.hostname or "").encode("idna")
    except ValueError:
        return False
    return bool(usable) and not parts.query and not parts.fragment


async def require_listening(target: Target, timeout_s: float) -> None:
    """StartError unless a connection can be opened: found out before the load, not by it."""
    parts = urlsplit(target.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except TimeoutError:
        raise StartError(f"{target.url} does not answer within {timeout_s:g} s") from None
    except OSError as error:
        raise StartError(f"{target.url} accepts no connection: {error}") from error
    writer.transport.abort()
