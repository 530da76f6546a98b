"""What a name's addresses are: the only importer of the DNS library.

The library asks without threads of ours, knows the answers' TTL, and reads /etc/hosts.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple

import aiodns

from isocost.errors import ResolveError

#: A server that is there answers in milliseconds: this is for one packet that got lost.
_TIMEOUT_S, _TRIES = 2.0, 2


class Answer(NamedTuple):
    """``ips``: IPv4 first, then by number, so that all who ask take the same one. ``ttl_s``: how
    long that is true, 0 where nobody says.
    """

    ips: tuple[str, ...]
    ttl_s: float


class Resolver:
    """Made inside a running loop."""

    def __init__(self) -> None:
        self._dns = aiodns.DNSResolver(timeout=_TIMEOUT_S, tries=_TRIES)

    async def look_up(self, host: str) -> Answer:
        """ResolveError: the name has no address now, or nobody says."""
        try:
            found = await self._dns.getaddrinfo(host, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            raise ResolveError(f"{host}: {error.args[-1]}") from error
        ips = {ipaddress.ip_address(node.addr[0].decode()) for node in found.nodes}
        if not ips:
            raise ResolveError(f"{host}: it has no address")
        ordered = sorted(ips, key=lambda ip: (ip.version, ip.packed))
        return Answer(tuple(map(str, ordered)), float(min(node.ttl for node in found.nodes)))

    async def close(self) -> None:
        await self._dns.close()
