"""ACK, NACK, stale nonces, slow clients and reconnects."""

from collections.abc import Awaitable, Callable

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ROSTER, ROUTES, TABLE
from tests.contract.raw_client import Client
from tests.contract.xds_resources import clusters, endpoints, opaque, roster, table

Connect = Callable[..., Client]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


async def test_refused_content_is_parked_until_it_changes(
    cache: Cache, ads: AdsService, connect: Connect
) -> None:
    cache.publish(opaque(ROUTES, r=b"bad"))
    client = connect()
    await client.send(ROUTES, "r")
    refused = await client.receive(ROUTES)
    await client.nack(refused, "r", error="no such cluster")
    await client.expect_nothing_else()
    status = ads.clients()[0].types[ROUTES]
    assert (status.error, status.nacks, status.acked_version) == ("no such cluster", 1, None)
    assert status.refused_version == refused.version_info
    cache.publish(opaque(ROUTES, r=b"good"))
    await client.ack(await client.receive(ROUTES), "r")
    await client.expect_nothing_else()
    status = ads.clients()[0].types[ROUTES]
    assert (status.error, status.refused_version, status.nacks) == (None, None, 1)


async def test_client_that_refuses_everything_gets_each_content_once(
    cache: Cache, connect: Connect
) -> None:
    client = connect()
    await client.send(ROUTES, "r")
    for content in (b"1", b"2", b"3"):
        cache.publish(opaque(ROUTES, r=content))
        await client.nack(await client.receive(ROUTES), "r", error="no")
        await client.expect_nothing_else()


async def test_refused_endpoints_stay_parked_through_a_cluster_change(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"))
    client = connect()
    await client.send(CLUSTER)
    await client.ack(await client.receive(CLUSTER))
    await client.send(ENDPOINTS, "nodes")
    await client.nack(await client.receive(ENDPOINTS), "nodes", error="no")
    cache.publish(clusters("nodes", marker=1))
    await client.ack(await client.receive(CLUSTER))
    await client.expect_nothing_else()


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


async def test_stale_nonce_is_ignored(cache: Cache, ads: AdsService, connect: Connect) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = connect()
    await client.send(ROUTES, "first")
    old = await client.receive(ROUTES)
    await client.ack(old, "first")
    cache.publish(opaque(ROUTES, first=b"new", second=b"2"))
    new = await client.receive(ROUTES)
    await client.send(ROUTES, "first", "second", nonce=old.nonce)
    await client.nack(old, "first", error="too late")
    await client.expect_nothing_else()
    status = ads.clients()[0].types[ROUTES]
    assert status.outstanding
    assert (status.names, status.nacks) == (("first",), 0)
    await client.ack(new, "first", "second")
    assert len((await client.receive(ROUTES)).resources) == 2


async def test_table_is_coalesced_for_a_client_that_does_not_answer(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(roster(1), table(1))
    client = connect()
    await client.send(TABLE, "fleet")
    first = await client.receive(TABLE)
    for version in range(2, 52):
        cache.publish(table(version))
        if version % 10 == 0:
            await client.expect_nothing_else()
    await client.ack(first, "fleet")
    last = await client.receive(TABLE)
    assert last.version_info == "51"
    await client.ack(last, "fleet")
    await client.expect_nothing_else()


async def test_slow_client_does_not_slow_another(cache: Cache, connect: Connect) -> None:
    cache.publish(roster(1), table(1))
    slow, quick = connect("slow"), connect("quick")
    await slow.send(TABLE, "fleet")
    await slow.receive(TABLE)
    await quick.send(TABLE, "fleet")
    for version in range(2, 12):
        await quick.ack(await quick.receive(TABLE), "fleet")
        cache.publish(table(version))
    assert (await quick.receive(TABLE)).version_info == "11"
    await slow.expect_nothing_else()


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


async def test_reconnecting_client_with_an_unknown_nonce_gets_what_is_current(
    cache: Cache, connect: Connect
) -> None:
    published = roster(1)
    cache.publish(published)
    client = connect()
    await client.send(ROSTER, "fleet", nonce="former.1.9", version=published.version, error="old")
    response = await client.receive(ROSTER)
    assert response.version_info == published.version
    await client.ack(response, "fleet")
    await client.expect_nothing_else()


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
