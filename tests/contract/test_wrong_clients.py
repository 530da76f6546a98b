"""Clients that are refused and come again at once leave nothing behind and fill no log."""

import gc
from collections.abc import Awaitable, Callable

import grpc
import pytest
from envoy_data_plane.envoy.service.discovery.v3 import DeltaDiscoveryRequest

from isocost.push.ads import AdsService
from isocost.push.delta_subscription import MAX_NAMES
from isocost.push.type_urls import ROSTER
from isocost.push.variant import DELTA, Variant
from tests.contract.xds_client import first_request, method

#: As many reconnects as a client makes in a minute, ten times a second; the first ones fill pools.
WARM_UP, RECONNECTS = 100, 600
#: One object kept of every second refused stream would be more.
OBJECTS = RECONNECTS // 2

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


async def test_refused_client_that_reconnects_for_ever_leaves_nothing_behind(
    ads: AdsService,
    variant: Variant,
    address: str,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = [("grpc.use_local_subchannel_pool", 1)]
    request = first_request(variant, "type.googleapis.com/Unsupported")
    before = 0
    async with grpc.aio.insecure_channel(address, options=own) as channel:
        for number in range(WARM_UP + RECONNECTS):
            if number == WARM_UP:
                before = objects()
            call = channel.stream_stream(method(variant))()
            await call.write(request)
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "Unsupported" in await call.details()
        del call
        # The last ones are still being ended.
        await eventually(lambda: objects() < before + OBJECTS)
    assert ads.clients() == ()
    closed = [record for record in caplog.records if "closed the stream" in record.message]
    # The test's clock stands still: one line for each period of it.
    assert len(closed) == 1


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


async def test_a_delta_client_that_subscribes_without_end_is_refused(address: str) -> None:
    names = [str(number) for number in range(MAX_NAMES // 2 + 1)]
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream(method(DELTA))()
        for part in ("a", "b"):
            request = DeltaDiscoveryRequest(
                type_url=ROSTER, resource_names_subscribe=[part + name for name in names]
            )
            await call.write(bytes(request))
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"more than {MAX_NAMES} names" in await call.details()
