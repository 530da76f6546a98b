"""The kinds of text and number that settings are made of: addresses, names, places in a request."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

#: A name, an IPv4 address, or an IPv6 address in brackets.
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


def endpoint(value: str) -> str:
    """HOST:PORT as it is; ValueError says what is allowed."""
    host, _, port = value.rpartition(":")
    if not _HOST.fullmatch(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("must be HOST:PORT with a port between 1 and 65535")
    return value


def _ip_endpoint(value: str) -> str:
    _ip(value)
    return value


def _ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of IP:PORT, an IPv4 address as that; ValueError says what is allowed."""
    host, _, port = value.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        ip = ipaddress.ip_address(bare)
    except ValueError:
        raise ValueError("must be IP:PORT (IPv6 in brackets)") from None
    if (ip.version == 6) != (bare != host):
        raise ValueError("must be IP:PORT (IPv6 in brackets)")
    if ip.version == 6 and ip.scope_id is not None:
        raise ValueError("must have no zone: it means nothing on another machine")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("must be IP:PORT with a port between 1 and 65535")
    return (ip.version == 6 and ip.ipv4_mapped) or ip


def place(value: str) -> object:
    """What is equal for two ways to write one address."""
    try:
        return _ip(value), int(value.rpartition(":")[2])
    except ValueError:
        return value


def _node_ip_endpoint(value: str) -> str:
    """IP:PORT that others can connect to."""
    ip = _ip(value)
    if ip.is_unspecified or ip.is_multicast:
        raise ValueError("must be the address of one machine")
    return value


def _node_endpoint(value: str) -> str:
    """As above, or HOST:PORT with a name that nobody can take for an IP address."""
    host = value.rpartition(":")[0]
    if host.startswith("[") or ":" in host or host.rpartition(".")[2].isdecimal():
        return _node_ip_endpoint(value)
    return endpoint(value)


#: A header's or a claim's name as it can stand in a list; Envoy has no header with a capital.
_SOURCE = re.compile(r"body|header:[a-z0-9!#$%&'*+.^_`|~-]+|jwt:[A-Za-z0-9_.:/-]+")
#: As many as the filter takes.
_MAX_SOURCES = 4


def _sources(value: str) -> str:
    """A comma-separated list of places in a request, as it is; ValueError says what is allowed."""
    parts = value.split(",")
    distinct = len(set(parts)) == len(parts) <= _MAX_SOURCES
    if not distinct or not all(map(_SOURCE.fullmatch, parts)):
        raise ValueError(
            f"must be one to {_MAX_SOURCES} of header:NAME (in small letters), jwt:CLAIM and body, "
            "each once, with commas between"
        )
    return value


def _pattern(pattern: str) -> WithJsonSchema:
    """What a function checks, as far as a schema can say it."""
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


_PORT = r"0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_IPV4_PART = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IP = rf"(({_IPV4_PART}\.){{3}}{_IPV4_PART}|\[[0-9A-Fa-f:.]+\])"
#: A name whose last part is no number.
_NO_IP = r"[A-Za-z0-9._-]*(\.|[A-Za-z_-][A-Za-z0-9_-]*)"

Sources = Annotated[
    str,
    AfterValidator(_sources),
    _pattern(rf"({_SOURCE.pattern})(,({_SOURCE.pattern})){{0,{_MAX_SOURCES - 1}}}"),
]
Endpoint = Annotated[str, AfterValidator(endpoint), _pattern(rf"({_HOST.pattern}):{_PORT}")]
IpEndpoint = Annotated[str, AfterValidator(_ip_endpoint), _pattern(f"{_IP}:{_PORT}")]
NodeIpEndpoint = Annotated[str, AfterValidator(_node_ip_endpoint), _pattern(f"{_IP}:{_PORT}")]
NodeEndpoint = Annotated[
    str, AfterValidator(_node_endpoint), _pattern(rf"({_IP}|{_NO_IP}):{_PORT}")
]
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
PositiveMs = Annotated[int, Field(gt=0, le=3_600_000)]
