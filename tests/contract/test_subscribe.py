"""What a client gets for what it asks."""

from collections.abc import Callable

from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ROSTER, ROUTES, TABLE
from isocost.v1.table_pb2 import Table
from tests.contract.raw_client import Client
from tests.contract.xds_resources import clusters, endpoints, opaque, roster, table

Connect = Callable[..., Client]


async def test_first_request_is_answered_with_what_is_published(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(roster(1), table(7, nodes=1024))
    client = connect()
    await client.send(TABLE, "fleet")
    response = await client.receive(TABLE)
    assert response.version_info == "7"
    assert [held.type_url for held in response.resources] == [TABLE]
    received = Table.FromString(response.resources[0].value)
    assert (received.version, received.roster_version) == (7, 1)
    assert len(received.weight) == len(received.entropy) == len(received.state) == 1024


async def test_type_that_was_never_published_is_answered_once_it_is(
    cache: Cache, connect: Connect
) -> None:
    client = connect()
    await client.send(ROSTER, "fleet")
    await client.expect_nothing_else()
    cache.publish(roster(1))
    assert len((await client.receive(ROSTER)).resources) == 1


async def test_acknowledged_content_is_not_sent_again(cache: Cache, connect: Connect) -> None:
    cache.publish(roster(1))
    client = connect()
    await client.send(ROSTER, "fleet")
    await client.ack(await client.receive(ROSTER), "fleet")
    assert cache.publish(roster(1)) is False
    await client.expect_nothing_else()


async def test_new_content_follows_an_ack(cache: Cache, connect: Connect) -> None:
    cache.publish(roster(1))
    client = connect()
    await client.send(ROSTER, "fleet")
    first = await client.receive(ROSTER)
    await client.ack(first, "fleet")
    cache.publish(roster(2))
    second = await client.receive(ROSTER)
    assert second.version_info != first.version_info
    assert second.nonce != first.nonce


async def test_new_name_is_answered_with_all_subscribed_names(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2", third=b"3"))
    client = connect()
    await client.send(ROUTES, "first")
    response = await client.receive(ROUTES)
    assert [held.value for held in response.resources] == [b"1"]
    await client.ack(response, "first")
    await client.send(ROUTES, "first", "third", nonce=response.nonce)
    response = await client.receive(ROUTES)
    assert [held.value for held in response.resources] == [b"1", b"3"]


async def test_ack_that_adds_a_name_is_answered(cache: Cache, connect: Connect) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = connect()
    await client.send(ROUTES, "first")
    await client.ack(await client.receive(ROUTES), "first", "second")
    assert len((await client.receive(ROUTES)).resources) == 2


async def test_name_given_up_is_not_answered_and_not_sent_again(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = connect()
    await client.send(ROUTES, "first", "second")
    await client.ack(await client.receive(ROUTES), "second")
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, first=b"1", second=b"new"))
    response = await client.receive(ROUTES)
    assert [held.value for held in response.resources] == [b"new"]


async def test_unknown_name_does_not_hold_back_the_known(cache: Cache, connect: Connect) -> None:
    cache.publish(opaque(ROUTES, known=b"1"))
    client = connect()
    await client.send(ROUTES, "missing", "known")
    response = await client.receive(ROUTES)
    assert [held.value for held in response.resources] == [b"1"]
    await client.ack(response, "missing", "known")
    cache.publish(opaque(ROUTES, known=b"1", missing=b"2"))
    assert len((await client.receive(ROUTES)).resources) == 2


async def test_only_unknown_names_are_answered_once_one_exists(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(opaque(ROUTES, known=b"1"))
    client = connect()
    await client.send(ROUTES, "missing")
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, known=b"1", missing=b"2"))
    response = await client.receive(ROUTES)
    assert [held.value for held in response.resources] == [b"2"]


async def test_no_names_means_every_cluster(cache: Cache, connect: Connect) -> None:
    cache.publish(clusters("a", "b"))
    client = connect()
    await client.send(CLUSTER)
    response = await client.receive(CLUSTER)
    assert len(response.resources) == 2
    await client.ack(response)
    cache.publish(clusters("b"))
    response = await client.receive(CLUSTER)
    assert len(response.resources) == 1
    await client.ack(response)
    cache.publish(clusters())
    assert (await client.receive(CLUSTER)).resources == []


async def test_explicit_wildcard_means_every_cluster(cache: Cache, connect: Connect) -> None:
    cache.publish(clusters("a", "b"))
    client = connect()
    await client.send(CLUSTER, "a")
    response = await client.receive(CLUSTER)
    assert len(response.resources) == 1
    await client.ack(response, "a", "*")
    response = await client.receive(CLUSTER)
    assert len(response.resources) == 2


async def test_no_names_after_names_means_nothing(cache: Cache, connect: Connect) -> None:
    cache.publish(clusters("a"))
    client = connect()
    await client.send(CLUSTER, "a")
    await client.ack(await client.receive(CLUSTER))
    cache.publish(clusters("a", marker=1))
    await client.expect_nothing_else()


async def test_no_names_is_no_wildcard_for_other_types(cache: Cache, connect: Connect) -> None:
    cache.publish(opaque(ROUTES, first=b"1"))
    client = connect()
    await client.send(ROUTES)
    await client.expect_nothing_else()


async def test_equal_endpoints_are_sent_again_after_each_cluster_change(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"))
    client = connect()
    await client.send(CLUSTER)
    await client.ack(await client.receive(CLUSTER))
    await client.send(ENDPOINTS, "nodes")
    first = await client.receive(ENDPOINTS)
    await client.ack(first, "nodes")
    for marker in (1, 2):
        cache.publish(clusters("nodes", marker=marker))
        await client.ack(await client.receive(CLUSTER))
        again = await client.receive(ENDPOINTS)
        assert (again.version_info, again.resources) == (first.version_info, first.resources)
        await client.ack(again, "nodes")
    await client.expect_nothing_else()


async def test_types_come_in_the_order_that_makes_before_it_breaks(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(
        clusters("nodes"), endpoints("nodes"), opaque(ROUTES, r=b"1"), roster(1), table(1)
    )
    names: dict[str, tuple[str, ...]] = {
        CLUSTER: (),
        ENDPOINTS: ("nodes",),
        ROUTES: ("r",),
        ROSTER: ("fleet",),
        TABLE: ("fleet",),
    }
    client = connect()
    for type_url, subscribed in names.items():
        await client.send(type_url, *subscribed)
        await client.ack(await client.receive(type_url), *subscribed)
    cache.publish(
        table(2, roster_version=2), roster(2), opaque(ROUTES, r=b"2"), clusters("nodes", marker=1)
    )
    for type_url, subscribed in names.items():
        await client.ack(await client.receive(type_url), *subscribed)
    await client.expect_nothing_else()


async def test_table_never_overtakes_its_roster(cache: Cache, connect: Connect) -> None:
    cache.publish(roster(1), table(1))
    client = connect()
    await client.send(ROSTER, "fleet")
    slow = await client.receive(ROSTER)
    await client.send(TABLE, "fleet")
    await client.ack(await client.receive(TABLE), "fleet")
    cache.publish(roster(2), table(2, roster_version=2))
    cache.publish(table(3, roster_version=2))
    await client.ack(slow, "fleet")
    await client.receive(ROSTER)
    assert (await client.receive(TABLE)).version_info == "3"
