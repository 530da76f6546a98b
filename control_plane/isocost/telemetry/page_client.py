"""Fetches one page again and again over a connection that stays, within a time and a size.

By the standard library's client in a thread: an agent holds no HTTP framework for a page.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
import urllib.parse

from isocost.errors import TelemetryError

#: vLLM's page has 0.1 MB; more than this is something else.
MAX_BYTES = 4 * 1024 * 1024
_PIECE_BYTES = 256 * 1024
_HEADERS = {"Accept-Encoding": "identity"}


class PageClient:
    """Of one URL. One ``get`` at a time."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urllib.parse.urlsplit(url)
        self._timeout_s = timeout_s
        self._path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        secure = parts.scheme == "https"
        connection = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._interrupts = 0
        self._connection = connection(parts.hostname or "", parts.port, timeout=timeout_s)

    def get(self) -> str:
        """The page's text. TelemetryError: no such page; TimeoutError: not all of it came in time;
        OSError or HTTPException: what came, or did not, is no answer.
        """
        end_s = time.monotonic() + self._timeout_s
        interrupts = self._interrupts
        kept = self._connection.sock is not None
        try:
            try:
                body = self._fetch(end_s)
            except (ConnectionError, http.client.BadStatusLine):
                # A server may close a connection that nobody used; that tells nothing of it.
                if not kept or self._interrupts > interrupts:
                    raise
                self._connection.close()
                body = self._fetch(end_s)
        except BaseException:
            self._connection.close()
            raise
        return body.decode("utf-8", "replace")

    def interrupt(self) -> None:
        """Let a ``get`` that waits for an answer in another thread fail."""
        self._interrupts += 1
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Not while there is a ``get``."""
        self._connection.close()

    def _fetch(self, end_s: float) -> bytes:
        self._within(end_s)
        self._connection.request("GET", self._path, headers=_HEADERS)
        self._within(end_s)
        # Closed, it frees the connection for the next page, or lets go of one that has ended.
        with contextlib.closing(self._connection.getresponse()) as response:
            if response.status != 200:
                raise TelemetryError(f"HTTP status {response.status}")
            body = bytearray()
            while piece := self._read(response, end_s):
                body += piece
                if len(body) > MAX_BYTES:
                    raise TelemetryError(f"page of more than {MAX_BYTES} bytes")
            if response.length:
                raise TelemetryError("the page was cut off")
        return bytes(body)

    def _read(self, response: http.client.HTTPResponse, end_s: float) -> bytes:
        self._within(end_s)
        return response.read1(_PIECE_BYTES)

    def _within(self, end_s: float) -> None:
        """No wait goes beyond ``end_s``, however slowly the pieces drip."""
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.timeout = left_s
        if self._connection.sock is not None:
            self._connection.sock.settimeout(left_s)
