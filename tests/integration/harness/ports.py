"""Ports for processes that must be told theirs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

# Below the ephemeral range, where the source port of any connection could take them in between;
# each test process begins somewhere else.
_FIRST, _LAST = 20_000, 32_000


def _candidates() -> Iterator[int]:
    port = _FIRST + os.getpid() * 97 % (_LAST - _FIRST)
    while True:
        yield port
        port = port + 1 if port < _LAST else _FIRST


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
