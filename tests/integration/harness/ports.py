"""Ports for processes that must be told theirs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

# Below the ephemeral range, where the source port of any connection could take them in between.
_FIRST, _LAST = 20_000, 31_999
# Workers of pytest-xdist have a part of them each: what one of them was given, and does not listen
# on yet, would be free to the others.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PART = (_LAST - _FIRST + 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def _candidates() -> Iterator[int]:
    # Each test process begins somewhere else.
    offset = os.getpid() * 97 % _PART
    while True:
        yield _FIRST + _WORKER * _PART + offset
        offset = (offset + 1) % _PART


_ports = _candidates()


def free_port() -> int:
    """A port that nothing listens on, never given twice by this process."""
    for port in _ports:
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
    raise AssertionError("unreachable: the candidates do not end")


def free_ports(count: int) -> int:
    """The first of so many consecutive ports that nothing listens on."""
    first = last = free_port()
    while last - first + 1 < count:
        port = free_port()
        # One in between is taken: begin anew behind it.
        first = first if port == last + 1 else port
        last = port
    return first
