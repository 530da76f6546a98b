"""Responses as bytes: encoded once for each version, with only the nonce added for each stream."""

from __future__ import annotations

from collections.abc import Callable

from envoy_data_plane.envoy.service.discovery.v3 import (
    DeltaDiscoveryResponse,
    DiscoveryResponse,
    Resource,
)

from isocost.push.snapshot import Response, TypeResources

# Of DiscoveryResponse and DeltaDiscoveryResponse.
_RESOURCES = 2
_NONCE = 5
# Of Resource.
_RESOURCE = 2

#: The wire type of strings, bytes, messages and packed numbers.
_LENGTH_DELIMITED = 2


class ResponseEncoder:
    """Encodes responses; remembers for each type the last body, which most streams share."""

    def __init__(self, body: Callable[[Response], bytes]) -> None:
        self._body = body
        self._last: dict[str, tuple[Response, bytes]] = {}

    def encode(self, response: Response, nonce: str) -> bytes:
        """The serialised response."""
        type_url = response.resources.type_url
        last = self._last.get(type_url)
        if last is None or not _same(last[0], response):
            last = self._last[type_url] = response, self._body(response)
        # The fields of a protobuf message may come in any order, so the nonce can come last.
        return last[1] + field(_NONCE, nonce.encode())


def _same(one: Response, other: Response) -> bool:
    # By identity: comparing the resources themselves would cost as much as encoding them.
    return (
        one.resources is other.resources
        and one.names == other.names
        and one.removed == other.removed
    )


def whole_body(response: Response) -> bytes:
    """A DiscoveryResponse (state of the world) without its nonce."""
    resources = response.resources
    head = DiscoveryResponse(version_info=resources.version, type_url=resources.type_url)
    parts = [bytes(head)]
    parts += [field(_RESOURCES, resources.resources[name]) for name in response.names]
    return b"".join(parts)


def delta_body(response: Response) -> bytes:
    """A DeltaDiscoveryResponse without its nonce: each resource under its own version."""
    resources = response.resources
    head = DeltaDiscoveryResponse(
        system_version_info=resources.version,
        type_url=resources.type_url,
        removed_resources=list(response.removed),
    )
    parts = [bytes(head)]
    parts += [field(_RESOURCES, _versioned(resources, name)) for name in response.names]
    return b"".join(parts)


def _versioned(resources: TypeResources, name: str) -> bytes:
    label = bytes(Resource(name=name, version=resources.version_of(name)))
    return label + field(_RESOURCE, resources.resources[name])


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
