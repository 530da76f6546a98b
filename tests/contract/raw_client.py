"""A raw ADS client that says exactly what a test wants and answers nothing by itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import grpc
from envoy_data_plane.envoy.config.core.v3 import Node
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryRequest, DiscoveryResponse
from envoy_data_plane.google.rpc import Status

from isocost.push.ads import SERVICE
from isocost.push.type_urls import EXTENSION
from isocost.push.variant import WHOLE

#: No wait takes this long unless the server is wrong.
DEADLINE_S = 10.0


def open_stream(channel: grpc.aio.Channel, node_id: str) -> Client:
    return Client(channel.stream_stream(f"/{SERVICE}/{WHOLE.method}")(), node_id)


@dataclass
class Client:
    """One stream."""

    call: grpc.aio.StreamStreamCall
    node_id: str
    nonces: dict[str, str] = field(default_factory=dict)
    echoes: int = 0

    async def send(
        self,
        type_url: str,
        *names: str,
        nonce: str = "",
        version: str = "",
        error: str | None = None,
    ) -> None:
        request = DiscoveryRequest(
            version_info=version,
            node=Node(id=self.node_id),
            resource_names=list(names),
            type_url=type_url,
            response_nonce=nonce,
            error_detail=None if error is None else Status(code=3, message=error),
        )
        await self.call.write(bytes(request))

    async def receive(self, type_url: str) -> DiscoveryResponse:
        """The next response on the stream, which must be of this type."""
        raw = await asyncio.wait_for(self.call.read(), DEADLINE_S)
        assert raw is not grpc.aio.EOF, "the server closed the stream"
        response = DiscoveryResponse.parse(raw)
        assert response.type_url == type_url
        self.nonces[type_url] = response.nonce
        return response

    async def ack(self, response: DiscoveryResponse, *names: str) -> None:
        await self.send(
            response.type_url, *names, nonce=response.nonce, version=response.version_info
        )

    async def nack(self, response: DiscoveryResponse, *names: str, error: str) -> None:
        await self.send(response.type_url, *names, nonce=response.nonce, error=error)

    async def expect_nothing_else(self) -> None:
        """Fail if the server has anything to say but the answers to these two new questions.

        Whatever was due when the first was asked is written before the second is answered.
        """
        for _ in range(2):
            self.echoes += 1
            names = [f"echo{number}" for number in range(self.echoes)]
            await self.send(EXTENSION, *names, nonce=self.nonces.get(EXTENSION, ""))
            await self.ack(await self.receive(EXTENSION), *names)

    async def status(self) -> tuple[grpc.StatusCode, str]:
        """How the server closed the stream."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.call.code(), await self.call.details()
