"""Addresses as Envoy prints them: what it tells of a node is found by this text."""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache

#: A fleet's addresses are looked at whenever one of its nodes changes; few of them are new then.
_KEPT = 2**15


def split(address: str) -> tuple[str, int]:
    """Host, without brackets, and port of HOST:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


@lru_cache(_KEPT)
def is_ip(address: str) -> bool:
    """Is the host of HOST:PORT an IP address, and no name?"""
    try:
        ipaddress.ip_address(split(address)[0])
    except ValueError:
        return False
    return True


@lru_cache(_KEPT)
def canonical(address: str) -> str:
    """``address``, an IP:PORT, in Envoy's form. ValueError: it has no such form."""
    host, _, port = address.rpartition(":")
    ip = ipaddress.ip_address(host.strip("[]"))
    if isinstance(ip, ipaddress.IPv4Address):
        return f"{ip}:{int(port)}"
    if ip.ipv4_mapped is not None:
        # The same machine: as two addresses it would be two nodes.
        return f"{ip.ipv4_mapped}:{int(port)}"
    if ip.scope_id is not None:
        raise ValueError("an address with a zone means nothing on another machine")
    # As the C library writes it, like Envoy: ipaddress writes an IPv4 inside in another way.
    return f"[{socket.inet_ntop(socket.AF_INET6, ip.packed)}]:{int(port)}"
