"""What a client asks: requests of both variants read by hand, as Envoy's are 60 KB of node.

An Envoy sends its whole list of extensions with the first request of a stream, or with every
one. Reading that into objects blocks the loop for 10 ms a request, which fifty Envoys that
reconnect at once would feel as half a second without a push. Only the node's id is of use, and
the rest can be stepped over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isocost.errors import IsocostError

#: What is kept of a client's error text: its end, because Envoy prints the refused resource
#: first and the reason last.
ERROR_TEXT_LIMIT = 1024

# Field numbers of envoy.service.discovery.v3.DiscoveryRequest,
_NODE, _NAMES, _TYPE_URL, _NONCE, _ERROR = 2, 3, 4, 5, 6
# of DeltaDiscoveryRequest and the entries of its map,
_DELTA_NODE, _DELTA_TYPE_URL, _SUBSCRIBE, _UNSUBSCRIBE = 1, 2, 3, 4
_INITIAL_VERSIONS, _DELTA_NONCE, _DELTA_ERROR = 5, 6, 7
_KEY, _VALUE = 1, 2
# of core.v3.Node and of google.rpc.Status.
_NODE_ID = 1
_STATUS_MESSAGE = 2

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZE = {_FIXED64: 8, _FIXED32: 4}


class RequestError(IsocostError):
    """A client sent something that is not a request for a type that is served."""


@dataclass(frozen=True, slots=True)
class Request:
    """One DiscoveryRequest. ``error`` is a NACK's text in one line, None for anything else."""

    type_url: str
    names: tuple[str, ...] = ()
    nonce: str = ""
    error: str | None = None
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class DeltaRequest:
    """One DeltaDiscoveryRequest. ``initial_versions`` is by name; ``error`` as above."""

    type_url: str
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    initial_versions: Mapping[str, str] = field(default_factory=dict)
    nonce: str = ""
    error: str | None = None
    node_id: str = ""


def parse_request(raw: bytes) -> Request:
    """Read a serialised DiscoveryRequest; RequestError if it is not one."""
    type_url = nonce = node_id = ""
    error: str | None = None
    names: list[str] = []
    try:
        for number, value in _strings(raw):
            if number == _TYPE_URL:
                type_url = value.decode()
            elif number == _NAMES:
                names.append(value.decode())
            elif number == _NONCE:
                nonce = value.decode()
            elif number == _NODE:
                node_id = _last_string(value, _NODE_ID)
            elif number == _ERROR:
                error = _error_text(value)
    except ValueError as problem:
        raise RequestError(f"not a DiscoveryRequest: {problem}") from problem
    return Request(type_url, tuple(names), nonce, error, node_id)


def parse_delta_request(raw: bytes) -> DeltaRequest:
    """Read a serialised DeltaDiscoveryRequest; RequestError if it is not one."""
    type_url = nonce = node_id = ""
    error: str | None = None
    subscribe: list[str] = []
    unsubscribe: list[str] = []
    versions: dict[str, str] = {}
    try:
        for number, value in _strings(raw):
            if number == _DELTA_TYPE_URL:
                type_url = value.decode()
            elif number == _SUBSCRIBE:
                subscribe.append(value.decode())
            elif number == _UNSUBSCRIBE:
                unsubscribe.append(value.decode())
            elif number == _INITIAL_VERSIONS:
                versions[_last_string(value, _KEY)] = _last_string(value, _VALUE)
            elif number == _DELTA_NONCE:
                nonce = value.decode()
            elif number == _DELTA_NODE:
                node_id = _last_string(value, _NODE_ID)
            elif number == _DELTA_ERROR:
                error = _error_text(value)
    except ValueError as problem:
        raise RequestError(f"not a DeltaDiscoveryRequest: {problem}") from problem
    return DeltaRequest(
        type_url, tuple(subscribe), tuple(unsubscribe), versions, nonce, error, node_id
    )


def _error_text(status: bytes) -> str:
    return " ".join(_last_string(status, _STATUS_MESSAGE).split())[-ERROR_TEXT_LIMIT:]


def _last_string(message: bytes, wanted: int) -> str:
    text = ""
    for number, value in _strings(message):
        if number == wanted:
            text = value.decode()
    return text


def _strings(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message; the others are stepped over."""
    at, end = 0, len(message)
    while at < end:
        tag = message[at]
        at += 1
        if tag > 0x7F:
            tag, at = _varint(message, at - 1)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("field number 0")
        if wire == _VARINT:
            _, at = _varint(message, at)
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in _FIXED_SIZE:
            size = _FIXED_SIZE[wire]
        else:
            raise ValueError(f"wire type {wire}")
        if size > end - at:
            raise ValueError("it ends inside a field")
        if wire == _BYTES:
            yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("it ends inside a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number longer than 10 bytes")
