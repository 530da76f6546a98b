"""A watch of Consul in all the trouble that Consul was seen in: the last good list stays."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from isocost.config_consul import ConsulDiscoverySettings
from isocost.discovery import consul_client
from isocost.discovery.consul import ConsulWatch, Pace
from isocost.discovery.consul_listing import ListingReader
from isocost.discovery.listing import Check, Listing
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until
from tests.unit.discovery.fake_consul import (
    Answer,
    FakeConsul,
    check,
    drop,
    fake_consul,
    instance,
    late,
    listing,
    never,
    text,
)

FAST = Pace(
    wait_s=20.0,
    answer_s=5.0,
    news_s=0.01,
    no_news_s=0.02,
    retry_least_s=0.02,
    retry_most_s=0.1,
)
TOKEN = "5f3c0b1e-secret"
N1, N2 = instance("n1"), instance("n2", address="192.0.2.2")


@asynccontextmanager
async def watching(
    consul: FakeConsul | str, pace: Pace = FAST, **settings: str
) -> AsyncIterator[ConsulWatch]:
    address = consul if isinstance(consul, str) else consul.address
    watch = ConsulWatch(
        ConsulDiscoverySettings(address=address, **settings), rng=random.Random(1), pace=pace
    )
    task = asyncio.create_task(watch.run())
    try:
        yield watch
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def names(watch: ConsulWatch) -> list[str] | None:
    listed = watch.source.listing
    return None if listed is None else [item.node.name for item in listed.nodes]


async def until(watch: ConsulWatch, *expected: str, deadline_s: float = 5.0) -> None:
    await wait_until(lambda: names(watch) == list(expected), f"{expected}", deadline_s)


async def until_error(watch: ConsulWatch, part: str) -> None:
    await wait_until(lambda: part in (watch.source.error or ""), f"an error with {part}", 5.0)


async def test_an_answer_that_nobody_thought_of_ends_no_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    async with fake_consul() as consul, watching(consul) as watch:
        with monkeypatch.context() as broken:
            broken.setattr(ListingReader, "read", fails)
            consul.then(listing(N1))
            await until_error(watch, "ZeroDivisionError")
        consul.then(listing(N1))
        await until(watch, "n1")


async def test_a_token_file_that_nobody_writes_to_holds_nothing_up(tmp_path: Path) -> None:
    fifo = tmp_path / "token"
    os.mkfifo(fifo)
    async with fake_consul() as consul, watching(consul, token_file=str(fifo)) as watch:
        await until_error(watch, "there is no token in it")


async def test_before_the_first_answer_there_is_no_list() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        await wait_until(lambda: consul.asked, "it asks")
        assert watch.source.listing is None and watch.source.error is None


async def test_a_change_ends_the_wait_and_is_seen() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=7))
        await until(watch, "n1")
        await wait_until(lambda: len(consul.asked) == 2, "it waits for news")
        assert dict(consul.asked[1].query) == {"index": "7", "wait": "20000ms"}
        consul.then(listing(N1, N2, index=8))
        await until(watch, "n1", "n2")


async def test_an_index_that_goes_back_is_forgotten() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=100), listing(N1, index=40), listing(N1, N2, index=41))
        await until(watch, "n1", "n2")
        await wait_until(lambda: len(consul.asked) == 4, "it waits for news")
        assert watch.source.resets == 1
    assert consul.indexes == [None, "100", None, "41"]


async def test_a_consul_that_begins_anew_is_told_from_one_that_lags() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=100), listing(N1, index=90), text("no leader", 500))
        consul.then(listing(N1, index=None), listing(N1, N2, index=9))
        await until(watch, "n1", "n2")
        assert watch.source.resets == 1


@pytest.mark.parametrize("index", [None, 0, -1, "", "many", 2**64, "9" * 400])
async def test_an_index_that_is_none_is_not_sent_back(index: int | str | None) -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=index), listing(N1, N2, index=5))
        await until(watch, "n1", "n2")
        assert consul.indexes[:2] == [None, None]


async def test_indexes_that_alternate_on_equal_content_make_it_slow_and_change_nothing() -> None:
    pace = Pace(news_s=0.01, no_news_s=0.1)
    indexes = (1672207871, 1672201982, 1672198845) * 3
    async with fake_consul() as consul, watching(consul, pace) as watch:
        consul.then(listing(N1, index=1))
        await until(watch, "n1")
        first = watch.source.listing
        consul.then(*(listing(N1, index=index) for index in indexes))
        await wait_until(lambda: len(consul.asked) == len(indexes) + 2, "all were taken")
        assert watch.source.listing is first
    gaps_s = [after_s - before_s for before_s, after_s in itertools.pairwise(consul.asked_s)]
    # The first gap is behind news.
    assert min(gaps_s[2:]) > 0.9 * pace.no_news_s


async def test_a_list_that_changes_all_the_time_is_read_at_a_bounded_rate() -> None:
    pace = Pace(news_s=0.1)
    answers = [listing(*((N1, N2) if turn % 2 else (N1,)), index=turn) for turn in range(1, 30)]
    # Those that lost a node are asked for a second time: that is part of the bound.
    async with fake_consul() as consul, watching(consul, pace):
        begin_s = time.monotonic()
        consul.then(*answers)
        await wait_until(lambda: len(consul.asked) > 12, "some were taken")
        took_s = time.monotonic() - begin_s
    assert len(consul.asked) <= 2 * (took_s / pace.news_s + 1)


async def test_an_answer_that_takes_long_to_read_is_followed_by_a_longer_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slowly(reader: ListingReader, body: bytes, read: Any = ListingReader.read) -> Listing:
        time.sleep(0.1)
        answer: Listing = read(reader, body)
        return answer

    monkeypatch.setattr(ListingReader, "read", slowly)
    async with fake_consul() as consul, watching(consul):
        consul.then(*(listing(N1, index=index) for index in range(1, 5)))
        await wait_until(lambda: len(consul.asked) == 4, "some were taken")
    gaps_s = [after_s - before_s for before_s, after_s in itertools.pairwise(consul.asked_s)]
    assert min(gaps_s) >= 0.1 * FAST.reading_factor


async def test_a_check_whose_output_changes_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    def said(number: int) -> Answer:
        output = f"ok at 12:00:{number:02}"
        entry = instance("n1", checks=(check("http", "passing", output),))
        return listing(entry, index=number)

    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(said(1))
        await until(watch, "n1")
        first, caplog.records[:] = watch.source.listing, []
        with caplog.at_level(logging.DEBUG, logger="isocost"):
            consul.then(*map(said, range(2, 8)))
            await wait_until(lambda: len(consul.asked) == 8, "all were taken")
        assert watch.source.listing is first
        assert [record.message for record in caplog.records if "Consul" in record.message] == []


async def test_no_leader_keeps_the_list_and_is_over_within_one_retry() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=100))
        await until(watch, "n1")
        consul.then(*[text("No cluster leader", 500)] * 5)
        await until_error(watch, "500 No cluster leader")
        assert names(watch) == ["n1"]
        await wait_until(lambda: len(consul.asked) == 7, "all failures were taken")
        back_s = time.monotonic()
        consul.then(listing(N1, N2, index=3))
        await until(watch, "n1", "n2")
        assert time.monotonic() - back_s < FAST.retry_most_s + 0.5
        assert watch.source.error is None
    # Nothing of the time before is sent to it: it may have been made anew.
    assert consul.indexes[2:7] == [None] * 5


async def test_retries_become_slow_and_never_slower_than_stated() -> None:
    pace = Pace(retry_least_s=0.02, retry_most_s=0.4)
    async with fake_consul() as consul, watching(consul, pace) as watch:
        consul.then(*[text("rpc error", 500)] * 8)
        await wait_until(lambda: len(consul.asked) == 9, "all were taken")
        assert watch.source.listing is None
    gaps_s = [after_s - before_s for before_s, after_s in itertools.pairwise(consul.asked_s)]
    assert gaps_s[0] < pace.retry_most_s / 2
    assert pace.retry_most_s / 2 <= min(gaps_s[5:]) and max(gaps_s) < pace.retry_most_s + 0.5


async def test_an_empty_answer_of_a_cache_is_confirmed_before_it_counts() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, N2, index=5))
        await until(watch, "n1", "n2")
        consul.then(listing(index=6), listing(N1, N2, index=7))
        await wait_until(lambda: len(consul.asked) == 4, "it waits for news")
        assert names(watch) == ["n1", "n2"]
    assert dict(consul.asked[2].query) == {"consistent": "1"}
    assert consul.indexes[3] == "7"


async def test_an_empty_first_answer_is_confirmed_as_well() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(index=6), listing(N1, index=7))
        await until(watch, "n1")
        assert "consistent" in consul.asked[1].query


async def test_an_answer_that_lost_a_node_counts_when_it_is_confirmed() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, N2, index=5), listing(N2, index=6), listing(N2, index=6))
        await until(watch, "n2")
        assert "consistent" in consul.asked[2].query


async def test_what_cannot_be_confirmed_is_not_believed() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, N2, index=5))
        await until(watch, "n1", "n2")
        consul.then(listing(index=6), text("No cluster leader", 500))
        await until_error(watch, "No cluster leader")
        assert names(watch) == ["n1", "n2"]


async def test_a_token_that_may_not_read_all_takes_no_node_away() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(*[listing(filtered=True)] * 2)
        await until_error(watch, "the token may not read all instances")
        assert watch.source.listing is None
        consul.then(listing(N1, N2, index=5))
        await until(watch, "n1", "n2")
        consul.then(*[listing(N1, index=6, filtered=True)] * 2)
        await until_error(watch, "the token may not read all instances")
        assert names(watch) == ["n1", "n2"]


async def test_a_token_that_expires_is_replaced_by_its_file_and_never_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")

    async def gone(request: web.Request) -> web.Response:
        # A proxy before Consul may well repeat what it was sent.
        return web.Response(text=f"ACL not found: {request.headers['X-Consul-Token']}", status=403)

    with caplog.at_level(logging.DEBUG):
        async with (
            fake_consul() as consul,
            watching(consul, token_file=str(file)) as watch,
        ):
            consul.then(listing(N1, index=5))
            await until(watch, "n1")
            consul.then(*[gone] * 4)
            await until_error(watch, "403 ACL not found")
            await wait_until(lambda: len(consul.asked) >= 6, "all refusals were taken")
            assert names(watch) == ["n1"]
            assert watch.source.error is not None and TOKEN not in watch.source.error
            file.write_text("another")
            consul.then(gone, listing(N1, N2, index=6))
            await until(watch, "n1", "n2")
            assert TOKEN not in repr(watch.source) + repr(vars(watch))
        tokens = [request.headers.get("X-Consul-Token") for request in consul.asked]
        assert tokens[0] == TOKEN and tokens[-1] == "another"
    assert TOKEN not in caplog.text


async def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("TOKEN", TOKEN),
        ("ADDR", "http://127.0.0.1:1"),
        ("SSL", "true"),
        ("SSL_VERIFY", "false"),
    ):
        monkeypatch.setenv(f"CONSUL_HTTP_{name}", value)
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1))
        await until(watch, "n1")
        assert "X-Consul-Token" not in consul.asked[0].headers


@pytest.mark.parametrize("content", [None, "", "two words", "caf\u00e9", "a\nb", "x" * 5000])
async def test_a_token_file_without_a_token_is_an_error_that_names_it(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    async with fake_consul() as consul, watching(consul, token_file=str(file)) as watch:
        await until_error(watch, f"token_file {file}: ")
        assert consul.asked == []
        assert content is None or not content or content not in (watch.source.error or "")
        file.write_text(TOKEN)
        consul.then(listing(N1))
        await until(watch, "n1")


async def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    async with fake_consul() as elsewhere, fake_consul() as consul:

        async def redirect(request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": elsewhere.address + request.path})

        async with watching(consul, token_file=str(file)) as watch:
            consul.then(redirect)
            await until_error(watch, "307")
        assert elsewhere.asked == []


async def test_the_time_out_holds_for_one_that_does_not_answer() -> None:
    pace = Pace(answer_s=0.2, retry_least_s=0.02)
    async with fake_consul() as consul, watching(consul, pace) as watch:
        begin_s = time.monotonic()
        consul.then(never)
        await until_error(watch, "no answer in 0.2 s")
        assert 0.2 <= time.monotonic() - begin_s < 1.0
        consul.then(listing(N1))
        await until(watch, "n1")


async def test_the_time_out_holds_for_a_blocking_query_too() -> None:
    pace = Pace(wait_s=0.16, answer_s=0.2, retry_least_s=0.02)
    async with fake_consul() as consul, watching(consul, pace) as watch:
        consul.then(listing(N1, index=5), never)
        await until_error(watch, "no answer in 0.37 s")
        assert names(watch) == ["n1"]


async def test_the_time_out_holds_for_an_answer_that_comes_byte_by_byte() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"X-Consul-Index": "1"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with fake_consul() as consul, watching(consul, Pace(answer_s=0.2)) as watch:
        consul.then(drip)
        await until_error(watch, "no answer in 0.2 s")


def test_the_time_out_leaves_consul_its_jitter_and_more() -> None:
    # A Consul that answers every call after 5 s is slow, not away.
    pace = Pace()
    assert pace.answer_s >= 2 * 5.0
    assert pace.blocking_timeout_s >= pace.wait_s * (1 + 1 / 16) + 5.0


async def test_a_consul_that_answers_every_call_late_is_followed() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(late(listing(N1, index=5), 0.3), late(listing(N1, N2, index=6), 0.3))
        await until(watch, "n1", "n2")
        assert watch.source.error is None


async def test_an_answer_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=5))
        await until(watch, "n1")
        monkeypatch.setattr(consul_client, "MAX_ANSWER_BYTES", 100)
        consul.then(listing(N1, N2, index=6))
        await until_error(watch, "more than 100 bytes")
        assert names(watch) == ["n1"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>Bad Gateway</html>",
        "null",
        "{}",
        "[null]",
        '[{"Node": {}, "Service": {}, "Checks": []}]',
        '[{"Node": 1, "Service": 2, "Checks": 3}]',
        "[" * 100_000,
        '[{"Node": {"Node": "m", "Address": "a"}, "Service": {"ID": "s", "Address": "", "Port": 1},'
        ' "Checks": [{}]}]',
    ],
)
async def test_an_answer_that_is_none_keeps_the_list(body: str) -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=5))
        await until(watch, "n1")
        consul.then(text(body, 200))
        await until_error(watch, "an answer ")
        assert names(watch) == ["n1"] and len(watch.source.error or "") < 400
        consul.then(listing(N1, N2, index=6))
        await until(watch, "n1", "n2")


async def test_a_connection_that_breaks_is_made_anew_without_an_index(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, index=5), drop)
        await until_error(watch, consul.address)
        consul.then(listing(N1, N2, index=6))
        await until(watch, "n1", "n2")
    assert consul.indexes[:3] == [None, "5", None]
    assert "Consul does not answer, its last list stays: " in caplog.text


async def test_one_that_refuses_connections_is_told_and_found_when_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    async with watching(f"http://127.0.0.1:{port}") as watch:
        await until_error(watch, f"http://127.0.0.1:{port}: cannot connect: Connect call failed")
        async with fake_consul(port) as consul:
            consul.then(listing(N1))
            await until(watch, "n1")
            assert watch.source.error is None
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "Consul does not answer: " in told, "there is no last list"


async def test_one_watch_is_one_connection() -> None:
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(N1, N2, index=5), listing(N1, index=6), listing(N1, index=6))
        await until(watch, "n1")
        consul.then(*(listing(N1, index=index) for index in range(7, 20)))
        await wait_until(lambda: len(consul.asked) > 15, "all were taken")
    assert len(consul.connections) == 1


async def test_datacenter_and_namespace_are_asked_for_and_stale_answers_never() -> None:
    async with (
        fake_consul() as consul,
        watching(consul, datacenter="dc2", namespace="team-a", service="llm") as watch,
    ):
        consul.then(listing(index=1), listing(N1, index=5))
        await until(watch, "n1")
        await wait_until(lambda: len(consul.asked) == 3, "it waits for news")
    for request in consul.asked:
        assert request.path == "/v1/health/service/llm"
        assert request.query["dc"] == "dc2" and request.query["ns"] == "team-a"
        assert not {"stale", "cached", "passing"} & set(request.query)


async def test_confirmed_is_when_the_last_good_answer_came() -> None:
    now_s = 100.0
    async with fake_consul() as consul:
        watch = ConsulWatch(
            ConsulDiscoverySettings(address=consul.address), lambda: now_s, pace=FAST
        )
        task = asyncio.create_task(watch.run())
        now_s = 107.0
        consul.then(listing(N1, index=5))
        await until(watch, "n1")
        now_s = 120.0
        consul.then(text("", 500))
        await until_error(watch, "500")
        assert watch.source.confirmed_s == 107.0
        task.cancel()
        await asyncio.wait([task])


async def test_a_machine_in_maintenance_is_listed_as_such() -> None:
    entry = instance("n1", checks=(check("_node_maintenance", "critical"),))
    async with fake_consul() as consul, watching(consul) as watch:
        consul.then(listing(entry))
        await until(watch, "n1")
        assert watch.source.listing is not None
        assert watch.source.listing.nodes[0].check is Check.MAINTENANCE
