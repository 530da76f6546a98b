"""Faults of a scenario without a load, ordered from real fake nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from isocost.bench import chaos
from isocost.bench.chaos import Change, changes, require_ends, run_chaos
from isocost.bench.phases import OrderedFault
from isocost.bench.scenario import Scenario
from isocost.errors import ConfigError, NodeAwayError, StartError
from isocost.fake.server import start
from tests.unit.bench.fault_node import fault_node
from tests.unit.bench.listening import unused_url
from tests.unit.fake.node_client import DEADLINE_S, running, settings, until

SLOW = {"node": "n1", "fault": "slow", "factor": 3, "start_s": 0.05, "end_s": 0.3}
HANG = {"node": "n1", "fault": "hang", "start_s": 0.1}
RESTART = {"node": "n1", "fault": "restart", "start_s": 0.05, "end_s": 0.2}


def scenario(*faults: dict[str, Any], **urls: str) -> Scenario:
    return Scenario.model_validate({"nodes": urls, "faults": list(faults)})


class Told:
    """What was told so far, as "fault begins" and "fault ends"; ``last`` ends the run."""

    def __init__(self, last: int | None = None) -> None:
        self.lines: list[str] = []
        self.stop: Callable[[], object] = lambda: None
        self._last = last

    def __call__(self, change: Change) -> None:
        self.lines.append(f"{change.fault.fault} {'begins' if change.begins else 'ends'}")
        if len(self.lines) == self._last:
            self.stop()

    async def reach(self, count: int) -> None:
        async def reached() -> bool:
            return len(self.lines) >= count

        await until(reached)


@asynccontextmanager
async def chaotic(
    wanted: Scenario, *, repeat: bool = False, last: int | None = None
) -> AsyncIterator[Told]:
    """A run and what it tells; its end is awaited."""
    told = Told(last)
    task = asyncio.create_task(run_chaos(wanted, told, repeat=repeat))
    told.stop = task.cancel
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield told
            with suppress(asyncio.CancelledError):
                await task
    finally:
        task.cancel()


async def test_each_fault_is_told_while_it_holds_and_when_it_is_over() -> None:
    longer = {**SLOW, "end_s": 1.0}
    async with running() as node, chaotic(scenario(longer, n1=node.url)) as told:
        await told.reach(1)
        (fault,) = await node.faults()
        assert (fault["fault"], fault["factor"], fault["active"]) == ("slow", 3.0, True)
        await told.reach(2)
        assert await node.faults() == []
    assert told.lines == ["slow begins", "slow ends"]


async def test_a_fault_without_an_end_holds_until_the_stop() -> None:
    async with running() as node:
        async with chaotic(scenario(SLOW, HANG, n1=node.url)) as told:
            await told.reach(3)
            assert told.lines == ["slow begins", "hang begins", "slow ends"]
            assert [fault["fault"] for fault in await node.faults()] == ["hang"]
            told.stop()
        assert await node.faults() == []
    assert told.lines[3:] == ["hang ends"]


async def test_it_begins_again_after_the_last_end() -> None:
    async with running() as node:
        async with chaotic(scenario(SLOW, n1=node.url), repeat=True, last=5) as told:
            pass
        assert await node.faults() == []
    assert told.lines == ["slow begins", "slow ends"] * 3


async def test_a_node_that_restarts_is_no_error_and_takes_part_in_the_next_round() -> None:
    wanted = {**SLOW, "start_s": 0.1, "end_s": 0.15}
    async with running() as node:
        faults = scenario(RESTART, wanted, n1=node.url)
        async with chaotic(faults, repeat=True, last=5) as told:
            pass
        # It is back: the stop has waited for it.
        assert await node.faults() == []
    whole = ["restart begins", "slow begins", "slow ends", "restart ends"]
    assert told.lines == [*whole, "restart begins", "restart ends"]


async def test_a_later_round_waits_for_a_node_that_is_gone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos, "_TAKE_BACK_S", 0.0)
    server = await start(settings())
    url = f"http://127.0.0.1:{server.port}"
    try:
        async with chaotic(scenario(SLOW, n1=url), repeat=True) as told:
            await told.reach(1)
            await server.stop()
            await until(lambda: _logged(caplog, f"waiting: node {url} does not answer"))
            count = len(told.lines)
            server = await start(settings(port=server.port))
            await told.reach(count + 1)
            told.stop()
    finally:
        await server.stop()


async def _logged(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_a_node_that_is_started_later_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = unused_url()
    async with chaotic(scenario(SLOW, n1=url)) as told:
        await until(lambda: _logged(caplog, f"waiting: node {url} does not answer"))
        async with running(port=int(url.rpartition(":")[2])):
            await told.reach(2)
    # Once, however often it was asked.
    assert caplog.text.count("waiting: ") == 1


async def test_a_node_that_never_comes_is_named() -> None:
    url = unused_url()
    with pytest.raises(NodeAwayError, match=f"node {url} does not answer"):
        await run_chaos(scenario(SLOW, n1=url), Told(), repeat=True, patience_s=0.0)


async def test_a_refused_fault_is_told_at_once_and_leaves_nothing_elsewhere() -> None:
    bad = {"node": "n2", "fault": "slow", "factor": 0.5}
    absent = {**SLOW, "node": "n3"}
    async with running() as node, running() as other:
        wanted = scenario(SLOW, bad, absent, n1=node.url, n2=other.url, n3=unused_url())
        with pytest.raises(StartError, match=f"node {other.url} .*HTTP 400 .*factor"):
            await asyncio.wait_for(run_chaos(wanted, Told(), repeat=False), DEADLINE_S)
        assert await node.faults() == []


async def test_what_cannot_be_taken_back_is_named_and_not_told_as_ended(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos, "_TAKE_BACK_S", 0.0)
    async with fault_node() as node:
        node.away = 1000
        async with chaotic(scenario(HANG, n1=node.url)) as told:
            await told.reach(1)
            told.stop()
    assert told.lines == ["hang begins"]
    assert f"what it was ordered may still hold: node {node.url} does not answer" in caplog.text


def test_at_one_time_ends_come_before_begins() -> None:
    first = OrderedFault("n1", "slow", 0.0, 2.0, {"factor": 2})
    second = OrderedFault("n1", "slow", 2.0, None, {"factor": 4})
    assert changes([second, first]) == [
        Change(0.0, True, first),
        Change(2.0, False, first),
        Change(2.0, True, second),
    ]


def test_every_fault_without_an_end_is_named(tmp_path: Path) -> None:
    source = str(tmp_path / "s.yaml")
    with pytest.raises(ConfigError) as caught:
        require_ends(scenario(HANG, SLOW, HANG, n1="http://127.0.0.1:1"), source)
    assert [error.field for error in caught.value.fields] == ["faults.0.end_s", "faults.2.end_s"]
    require_ends(scenario(SLOW, n1="http://127.0.0.1:1"), source)
