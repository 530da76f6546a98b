"""A client that asks for nonsense is counted, and nothing that it sends is kept in full."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc

from isocost.push.ads import AdsService
from isocost.push.stream import NODE_ID_LIMIT
from isocost.push.type_urls import EXTENSION, ORDER
from tests.contract.raw_client import DEADLINE_S, Client

STREAMS = 20


async def test_made_up_types_are_counted_as_one_kind(
    ads: AdsService, connect: Callable[..., Client]
) -> None:
    for number in range(STREAMS):
        client = connect()
        await client.send(f"type.googleapis.com/made.up.{number}" + "x" * 10_000)
        async with asyncio.timeout(DEADLINE_S):
            assert await client.call.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert len(await client.call.details()) < 1000
    assert ads.invalid_streams == STREAMS
    assert set(ads.nacks) == set(ORDER)


async def test_a_refusal_is_counted_by_its_type_and_a_long_name_is_cut(
    ads: AdsService,
    connect: Callable[..., Client],
    eventually: Callable[[Callable[[], bool]], Awaitable[None]],
) -> None:
    client = connect("n" * 5000)
    await client.send(EXTENSION, "echo1")
    response = await client.receive(EXTENSION)
    await client.send(EXTENSION, "echo1", nonce=response.nonce, error="no")
    await eventually(lambda: ads.nacks[EXTENSION] == 1)
    assert sum(ads.nacks.values()) == 1
    (status,) = ads.clients()
    assert status.node_id == "n" * NODE_ID_LIMIT
