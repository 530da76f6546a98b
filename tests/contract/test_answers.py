"""State of the world: answers and names that cross on the wire."""

from collections.abc import Callable

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import ROSTER, ROUTES, TABLE
from tests.contract.raw_client import Client
from tests.contract.xds_resources import opaque, roster, table

Connect = Callable[..., Client]


async def test_new_name_after_a_refusal_is_answered(cache: Cache, connect: Connect) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = connect()
    await client.send(ROUTES, "first")
    await client.nack(await client.receive(ROUTES), "first", "second", error="no")
    assert len((await client.receive(ROUTES)).resources) == 2


async def test_request_with_the_refused_nonce_and_no_error_is_no_ack(
    cache: Cache, ads: AdsService, connect: Connect
) -> None:
    cache.publish(opaque(ROUTES, r=b"1"))
    client = connect()
    await client.send(ROUTES, "r")
    refused = await client.receive(ROUTES)
    await client.nack(refused, "r", error="no")
    await client.send(ROUTES, "r", nonce=refused.nonce)
    await client.expect_nothing_else()
    assert ads.clients()[0].types[ROUTES].acked_version is None


async def test_slow_answer_for_one_type_does_not_hold_another(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(roster(1), table(1))
    client = connect()
    await client.send(ROSTER, "fleet")
    await client.receive(ROSTER)
    await client.send(TABLE, "fleet")
    for version in range(2, 5):
        await client.ack(await client.receive(TABLE), "fleet")
        cache.publish(table(version))
    assert (await client.receive(TABLE)).version_info == "4"


async def test_names_with_a_nonce_of_a_former_stream_count_before_the_first_response(
    cache: Cache, connect: Connect
) -> None:
    client = connect()
    await client.send(ROUTES, "first", nonce="former.1.9")
    await client.send(ROUTES, "first", "second", nonce="former.1.9")
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    assert len((await client.receive(ROUTES)).resources) == 2


async def test_names_without_a_nonce_while_a_response_is_out_are_answered_after_it(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = connect()
    await client.send(ROUTES, "first")
    crossing = await client.receive(ROUTES)
    await client.send(ROUTES, "first", "second")
    await client.ack(crossing, "first", "second")
    response = await client.receive(ROUTES)
    assert len(response.resources) == 2
    await client.ack(response, "first", "second")
    await client.expect_nothing_else()
