"""Many clients, clients that vanish, clients that are wrong, and a server that restarts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import grpc
import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ROSTER, ROUTES, TABLE
from tests.contract.raw_client import DEADLINE_S, Client, open_stream
from tests.contract.xds_resources import clusters, opaque, roster, table

#: With these a client that does not read takes 64 KB at most, and the write of more must wait.
SMALL_WINDOWS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 65_536),
)

Connect = Callable[..., Client]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


def outstanding(ads: AdsService, node_id: str) -> dict[str, bool]:
    """Of each type that the client subscribed to, whether a response is out."""
    types = [held.types for held in ads.clients() if held.node_id == node_id]
    return {url: status.outstanding for held in types for url, status in held.items()}


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def test_sixty_clients_all_get_the_newest_table(cache: Cache, connect: Connect) -> None:
    cache.publish(roster(1), table(1, nodes=128))
    clients = [connect(f"envoy-{number}") for number in range(60)]

    async def follow(client: Client) -> None:
        await client.send(ROSTER, "fleet")
        await client.ack(await client.receive(ROSTER), "fleet")
        await client.send(TABLE, "fleet")
        while (response := await client.receive(TABLE)).version_info != "5":
            await client.ack(response, "fleet")

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(follow(client))
        for version in range(2, 6):
            cache.publish(table(version, nodes=128))
            await asyncio.sleep(0)


async def test_clients_have_subscriptions_and_nonces_of_their_own(
    cache: Cache, connect: Connect
) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    one, two = connect("one"), connect("two")
    await one.send(ROUTES, "first")
    await two.send(ROUTES, "second")
    of_one, of_two = await one.receive(ROUTES), await two.receive(ROUTES)
    assert [held.value for held in of_one.resources] == [b"1"]
    assert [held.value for held in of_two.resources] == [b"2"]
    assert of_one.nonce != of_two.nonce


async def test_status_names_the_clients_and_what_they_hold(
    cache: Cache, ads: AdsService, connect: Connect, eventually: Eventually
) -> None:
    cache.publish(roster(1), table(4))
    client = connect("envoy-7")
    await client.send(TABLE, "fleet")
    await client.ack(await client.receive(TABLE), "fleet")
    await eventually(lambda: ads.clients()[0].types[TABLE].acked_version == "4")
    status = ads.clients()[0]
    assert status.node_id == "envoy-7"
    assert status.peer.startswith("ipv4:127.0.0.1:")
    assert not status.types[TABLE].outstanding


async def test_client_that_names_itself_once_keeps_its_name(
    ads: AdsService, connect: Connect
) -> None:
    client = connect("envoy-7")
    await client.send(ROSTER, "fleet")
    client.node_id = ""
    await client.expect_nothing_else()
    assert ads.clients()[0].node_id == "envoy-7"


@pytest.mark.parametrize("way", ["cancel", "half-close", "connection"])
async def test_client_that_leaves_leaves_nothing_behind(
    way: str,
    cache: Cache,
    ads: AdsService,
    address: str,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache.publish(roster(1), table(1))
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address, options=own) as channel:
        client = open_stream(channel, "leaver")
        await client.send(TABLE, "fleet")
        await client.receive(TABLE)
        assert len(ads.clients()) == 1
        before = asyncio.all_tasks()
        if way == "cancel":
            client.call.cancel()
        elif way == "half-close":
            await client.call.done_writing()
            assert (await client.status())[0] is grpc.StatusCode.OK
        else:
            await channel.close()
        await eventually(lambda: not ads.clients())
        await eventually(lambda: asyncio.all_tasks() < before)
    cache.publish(table(2))
    assert errors(caplog) == []


@pytest.mark.parametrize("way", ["cancel", "connection"])
async def test_client_that_does_not_read_blocks_nobody_and_leaves_quietly(
    way: str,
    cache: Cache,
    ads: AdsService,
    connect: Connect,
    address: str,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache.publish(clusters("nodes"), opaque(ROUTES, r=bytes(3_000_000)), roster(1), table(1))
    async with grpc.aio.insecure_channel(address, options=SMALL_WINDOWS) as channel:
        deaf = open_stream(channel, "deaf")
        await deaf.send(ROUTES, "r")
        await eventually(lambda: outstanding(ads, "deaf") == {ROUTES: True})
        await deaf.send(CLUSTER)
        hearing = connect("hearing")
        await hearing.send(TABLE, "fleet")
        for version in range(2, 6):
            await hearing.ack(await hearing.receive(TABLE), "fleet")
            cache.publish(table(version))
        # Its second request is read while the write waits, and answered only after that.
        await eventually(lambda: outstanding(ads, "deaf") == {ROUTES: True, CLUSTER: False})
        if way == "cancel":
            deaf.call.cancel()
        else:
            await channel.close()
        await eventually(lambda: [held.node_id for held in ads.clients()] == ["hearing"])
        await hearing.receive(TABLE)
    assert errors(caplog) == []


@pytest.mark.parametrize(
    "raw",
    [b"", b"\xff\xff\xff", b"garbage", b"\x22\x03abc", b"\x22\x7fabc", b"\x22\x02\xff\xfe"],
    ids=["empty", "cut number", "text", "unknown type", "cut field", "not UTF-8"],
)
async def test_invalid_request_closes_the_stream_and_no_other(
    raw: bytes, cache: Cache, ads: AdsService, connect: Connect, eventually: Eventually
) -> None:
    cache.publish(roster(1), table(1))
    good, bad = connect("good"), connect("bad")
    await good.send(TABLE, "fleet")
    await good.receive(TABLE)
    await bad.call.write(raw)
    code, details = await bad.status()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details
    await eventually(lambda: [held.node_id for held in ads.clients()] == ["good"])
    await good.expect_nothing_else()


@pytest.mark.parametrize("way", ["garbage", "half-close"])
async def test_stream_that_ends_under_a_write_is_closed_after_it(
    way: str,
    cache: Cache,
    ads: AdsService,
    address: str,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache.publish(opaque(ROUTES, r=bytes(3_000_000)))
    async with grpc.aio.insecure_channel(address, options=SMALL_WINDOWS) as channel:
        deaf = open_stream(channel, "deaf")
        await deaf.send(ROUTES, "r")
        await eventually(lambda: outstanding(ads, "deaf") == {ROUTES: True})
        if way == "garbage":
            await deaf.call.write(b"garbage")
        else:
            await deaf.call.done_writing()
        await deaf.receive(ROUTES)
        code, _ = await deaf.status()
        expected = {"garbage": grpc.StatusCode.INVALID_ARGUMENT, "half-close": grpc.StatusCode.OK}
        assert code is expected[way]
    await eventually(lambda: not ads.clients())
    assert errors(caplog) == []


async def test_wrong_clients_do_not_fill_the_log(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        client = connect()
        await client.call.write(b"garbage")
        await client.status()
    assert len([record for record in caplog.records if "closed" in record.message]) == 1
    assert errors(caplog) == []


async def test_refusals_do_not_fill_the_log(
    cache: Cache, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    cache.publish(roster(1))
    client = connect()
    await client.send(TABLE, "fleet")
    for version in range(1, 20):
        cache.publish(table(version))
        await client.nack(await client.receive(TABLE), "fleet", error="bad arrays")
    await client.expect_nothing_else()
    refusals = [record.getMessage() for record in caplog.records if "bad arrays" in record.message]
    assert len(refusals) == 1
    assert "envoy-1" in refusals[0]


async def test_push_intervals_are_those_between_new_tables(
    cache: Cache, connect: Connect, ads: AdsService, clock: list[float]
) -> None:
    cache.publish(roster(1), table(1))
    client = connect()
    assert ads.push_interval_ms() is None
    await client.send(TABLE, "fleet")
    for version, wait_s in ((2, 0.2), (3, 0.25), (4, 0.2)):
        await client.ack(await client.receive(TABLE), "fleet")
        await client.expect_nothing_else()
        clock[0] += wait_s
        cache.publish(table(version))
    await client.ack(await client.receive(TABLE), "fleet")
    await client.expect_nothing_else()
    clock[0] += 0.01
    # A Table that is asked for once more is no push.
    for names in ((), ("fleet",)):
        await client.send(TABLE, *names, nonce=client.nonces[TABLE])
    await client.ack(await client.receive(TABLE), "fleet")
    await client.expect_nothing_else()
    assert ads.push_intervals_ms() == pytest.approx([200, 250, 200])
    intervals = ads.push_interval_ms()
    assert intervals is not None
    assert (intervals.count, intervals.p50_ms) == (3, pytest.approx(200))
    assert intervals.p99_ms == pytest.approx(250)
