"""State of the world: what a client gets for what it asks."""

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


async def test_ack_that_adds_a_name_is_answered(cache: Cache, connect: Connect) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = connect()
    await client.send(ROUTES, "first")
    await client.ack(await client.receive(ROUTES), "first", "second")
    assert len((await client.receive(ROUTES)).resources) == 2


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


async def test_no_names_after_names_means_nothing(cache: Cache, connect: Connect) -> None:
    cache.publish(clusters("a"))
    client = connect()
    await client.send(CLUSTER, "a")
    await client.ack(await client.receive(CLUSTER))
    cache.publish(clusters("a", marker=1))
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
