"""A client that is gone while a response is written ends its stream, and that is no error."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc
import pytest
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryRequest

from isocost.push.ads import SERVICE, AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import ROSTER
from isocost.push.variant import WHOLE
from tests.contract.xds_resources import roster


@dataclass
class Details(grpc.HandlerCallDetails):
    """Which method a server looks up."""

    method: str
    invocation_metadata: tuple[()]


class Server:
    """Takes the handlers as a server does and hands out the one of the ADS method."""

    def add_generic_rpc_handlers(self, handlers: tuple[grpc.GenericRpcHandler, ...]) -> None:
        details = Details(method=f"/{SERVICE}/{WHOLE.method}", invocation_metadata=())
        self.stream = handlers[0].service(details).stream_stream


class Gone:
    """A connection with one request that breaks under the first write, as gRPC reports it."""

    def __init__(self, first: bytes, error: Exception) -> None:
        self.requests = endless(first)
        self.error = error

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def read(self) -> bytes:
        return await anext(self.requests)

    async def write(self, _response: bytes) -> None:
        raise self.error


async def endless(first: bytes) -> AsyncIterator[bytes]:
    yield first
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "error", [grpc.aio.InternalError("failed batch"), grpc.aio.UsageError("RPC finished")]
)
async def test_write_to_a_client_that_left_ends_the_stream(error: Exception) -> None:
    cache, server = Cache(), Server()
    cache.publish(roster(1))
    ads = AdsService(cache)
    ads.add_to(server)
    first = bytes(DiscoveryRequest(type_url=ROSTER, resource_names=["fleet"]))
    # What gRPC itself raises into the stream of a client that left: no status, no error log.
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(server.stream(None, Gone(first, error)), 5)
    assert ads.clients() == ()
