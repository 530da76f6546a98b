"""Responses as bytes: encoded once for each version, with only the nonce added for each stream."""

from __future__ import annotations

from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryResponse

from isocost.push.snapshot import TypeResources

# Of DiscoveryResponse.
_RESOURCES = 2
_NONCE = 5

#: The wire type of strings, bytes, messages and packed numbers.
_LENGTH_DELIMITED = 2


class ResponseEncoder:
    """Encodes responses; remembers for each type the last body, which most streams share."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[TypeResources, tuple[str, ...], bytes]] = {}

    def encode(self, resources: TypeResources, names: tuple[str, ...], nonce: str) -> bytes:
        """The serialised DiscoveryResponse with the named resources, which must exist."""
        # The fields of a protobuf message may come in any order, so the nonce can come last.
        return self._body(resources, names) + field(_NONCE, nonce.encode())

    def _body(self, resources: TypeResources, names: tuple[str, ...]) -> bytes:
        last = self._last.get(resources.type_url)
        if last is not None and last[0] is resources and last[1] == names:
            return last[2]
        head = DiscoveryResponse(version_info=resources.version, type_url=resources.type_url)
        parts = [bytes(head)]
        parts += [field(_RESOURCES, resources.resources[name]) for name in names]
        body = b"".join(parts)
        self._last[resources.type_url] = (resources, names, body)
        return body


def field(number: int, value: bytes) -> bytes:
    """A field of a message that is not a single number."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
