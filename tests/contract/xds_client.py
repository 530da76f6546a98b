"""An ADS client of either variant that says what a test wants and answers nothing by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc
from envoy_data_plane.envoy.config.core.v3 import Node
from envoy_data_plane.envoy.service.discovery.v3 import (
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    DiscoveryRequest,
    DiscoveryResponse,
)
from envoy_data_plane.google.rpc import Status

from isocost.push.ads import SERVICE
from isocost.push.type_urls import EXTENSION
from isocost.push.variant import Variant
from tests.contract.raw_client import DEADLINE_S


@dataclass(frozen=True)
class Received:
    """A response. ``names`` and ``versions`` are empty in state of the world, which has none."""

    type_url: str
    version: str
    nonce: str
    values: list[bytes]
    names: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


def method(variant: Variant) -> str:
    return f"/{SERVICE}/{variant.method}"


def first_request(variant: Variant, type_url: str) -> bytes:
    """The request of a client that names nothing."""
    kind = DeltaDiscoveryRequest if variant.delta else DiscoveryRequest
    return bytes(kind(type_url=type_url))


class XdsClient:
    """One stream; what it is subscribed to is its own doing."""

    def __init__(self, channel: grpc.aio.Channel, variant: Variant, node_id: str) -> None:
        self.call = channel.stream_stream(method(variant))()
        self.delta = variant.delta
        self.names: dict[str, list[str]] = {}
        self.nonces: dict[str, str] = {}
        self._node = Node(id=node_id)
        self._echoes = 0

    async def subscribe(self, type_url: str, *names: str, **said: object) -> None:
        """Add names; none at all is the legacy way to ask for everything."""
        held = self.names.setdefault(type_url, [])
        held += [name for name in names if name not in held]
        await self._send(type_url, subscribe=names, **said)

    async def unsubscribe(self, type_url: str, *names: str) -> None:
        held = self.names[type_url]
        self.names[type_url] = [name for name in held if name not in names]
        await self._send(type_url, unsubscribe=names)

    async def reconnected(self, type_url: str, versions: Mapping[str, str], *names: str) -> None:
        """The first request of a client that had a stream before."""
        self.names[type_url] = list(names)
        await self._send(type_url, subscribe=names, versions=versions, nonce="former.1.9")

    async def receive(self, type_url: str) -> Received:
        """The next response on the stream, which must be of this type."""
        raw = await asyncio.wait_for(self.call.read(), DEADLINE_S)
        assert raw is not grpc.aio.EOF, "the server closed the stream"
        received = _delta(raw) if self.delta else _whole(raw)
        assert received.type_url == type_url
        self.nonces[type_url] = received.nonce
        return received

    async def ack(self, received: Received) -> None:
        await self._send(received.type_url, nonce=received.nonce, version=received.version)

    async def nack(self, received: Received, error: str = "no") -> None:
        await self._send(received.type_url, nonce=received.nonce, error=error)

    async def taken(self, type_url: str) -> Received:
        """The next response, acknowledged."""
        received = await self.receive(type_url)
        await self.ack(received)
        return received

    async def expect_nothing_else(self) -> None:
        """Fail if the server has anything to say but the answers to these two new questions.

        Whatever was due when the first was asked is written before the second is answered.
        """
        for _ in range(2):
            self._echoes += 1
            await self.subscribe(EXTENSION, f"echo{self._echoes}")
            await self.taken(EXTENSION)

    async def expect_nothing_for(self, seconds: float) -> None:
        """Fail if the server says anything within that time; the stream is of no use after."""
        with contextlib.suppress(TimeoutError):
            raw = await asyncio.wait_for(self.call.read(), seconds)
            raise AssertionError(f"the server said {raw!r}")

    async def status(self) -> tuple[grpc.StatusCode, str]:
        """How the server closed the stream."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.call.code(), await self.call.details()

    async def _send(
        self,
        type_url: str,
        subscribe: tuple[str, ...] = (),
        unsubscribe: tuple[str, ...] = (),
        versions: Mapping[str, str] | None = None,
        nonce: str = "",
        version: str = "",
        error: str | None = None,
    ) -> None:
        detail = None if error is None else Status(code=3, message=error)
        request: DeltaDiscoveryRequest | DiscoveryRequest
        if self.delta:
            request = DeltaDiscoveryRequest(
                node=self._node,
                type_url=type_url,
                resource_names_subscribe=list(subscribe),
                resource_names_unsubscribe=list(unsubscribe),
                initial_resource_versions=dict(versions or {}),
                response_nonce=nonce,
                error_detail=detail,
            )
        else:
            request = DiscoveryRequest(
                version_info=version,
                node=self._node,
                resource_names=self.names.get(type_url, []),
                type_url=type_url,
                # As the protocol wants it, every request carries the last nonce.
                response_nonce=nonce or self.nonces.get(type_url, ""),
                error_detail=detail,
            )
        await self.call.write(bytes(request))


def _whole(raw: bytes) -> Received:
    response = DiscoveryResponse.parse(raw)
    values = [held.value for held in response.resources]
    return Received(response.type_url, response.version_info, response.nonce, values)


def _delta(raw: bytes) -> Received:
    response = DeltaDiscoveryResponse.parse(raw)
    assert all(held.resource is not None for held in response.resources)
    return Received(
        response.type_url,
        response.system_version_info,
        response.nonce,
        [held.resource.value for held in response.resources if held.resource],
        [held.name for held in response.resources],
        {held.name: held.version for held in response.resources},
        list(response.removed_resources),
    )
