"""A Consul that answers every call after five seconds, for an hour: the fleet is steered on."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from consul import base

from isocost.config_consul import ConsulDiscoverySettings
from isocost.discovery import consul_client
from isocost.discovery.consul import ConsulWatch, Pace
from isocost.discovery_status import discovery_status
from isocost.model import NodeState
from isocost.status import NodesPage
from tests.unit.control_plane.listed_fleet import Clock, fleet
from tests.unit.discovery.fake_consul import check, instance
from tests.unit.discovery.virtual_time import run_virtually

ANSWER_S = 5.0
HOUR_S = 3600
#: How often the control plane ticks here, which is all that takes real time.
TICK_S = 4.0
#: A change comes just behind the one that an answer on its way has, which is taken first.
SEEN_S = 2 * ANSWER_S + 2 * TICK_S


class SlowConsul:
    """``moves``: its index does so with every answer, for reasons that are none of ours."""

    def __init__(self, moves: bool) -> None:
        self.moves = moves
        self.numbers = [1, 2]
        self.index = 10
        self.asked = 0
        self.open = 0
        self.most_open = 0
        self._changed = asyncio.Event()

    def lists(self, *numbers: int) -> None:
        self.numbers, self.index = list(numbers), self.index + 1
        self._changed.set()

    async def answer(self, callback: Any, uri: str) -> Any:
        self.asked += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            (index,) = parse_qs(urlsplit(uri).query).get("index", ["0"])
            if int(index) == self.index:
                self._changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), Pace().wait_s)
            await asyncio.sleep(ANSWER_S)
            self.index += self.moves
            entries = [
                instance(f"n{n}", address=f"192.0.2.{n}", port=80, checks=(check("c", "passing"),))
                for n in self.numbers
            ]
            headers = {"X-Consul-Index": str(self.index)}
            return callback(base.Response(200, headers, json.dumps(entries).encode()))
        finally:
            self.open -= 1


@pytest.mark.parametrize(
    ("moves", "most_a_minute"), [(False, 2), (True, 12)], ids=["at rest", "moving"]
)
def test_a_consul_that_answers_late_for_an_hour_stops_nothing_and_is_asked_seldom(
    monkeypatch: pytest.MonkeyPatch, moves: bool, most_a_minute: int
) -> None:
    async def hour() -> None:
        consul = SlowConsul(moves)

        async def request(
            _: object, callback: Any, method: str, uri: str, *__: object, **___: object
        ) -> Any:
            assert method == "GET"
            return await consul.answer(callback, uri)

        monkeypatch.setattr(consul_client._Http, "_request", request)
        loop = asyncio.get_running_loop()
        watch = ConsulWatch(ConsulDiscoverySettings(), loop.time, random.Random(1))
        following = asyncio.create_task(watch.run())
        clock = Clock(follows=watch)
        clock.speaking = fleet(1, 2, epoch=17)
        await ticks(clock, SEEN_S)
        assert clock.nodes() == ["n1", "n2"]
        asked, versions = consul.asked, set()
        page = NodesPage(clock.pipeline, clock.registry, clock.observer, signals=False)
        for minute in range(HOUR_S // 60):
            for _ in range(round(60 / TICK_S)):
                await ticks(clock, TICK_S)
                versions.add(clock.pipeline.table_version)
            assert all(clock.of(name)[0] is NodeState.SERVING for name in clock.nodes()), minute
            rows = json.loads(await page.text())["nodes"]
            assert [row["name"] for row in rows] == ["n1", "n2"]
            told: Any = discovery_status(clock.registry.state(clock.now_s))
            (source,) = told["sources"]
            assert source["error"] is None and source["nodes"] == 2
            assert source["age_s"] <= Pace().blocking_timeout_s
        assert len(versions) == HOUR_S / TICK_S
        assert consul.asked - asked <= most_a_minute * HOUR_S / 60
        assert consul.most_open == 1
        consul.lists(1, 2, 3)
        await ticks(clock, SEEN_S)
        assert clock.nodes() == ["n1", "n2", "n3"]
        following.cancel()
        await asyncio.wait([following])

    run_virtually(monkeypatch, hour)


async def ticks(clock: Clock, seconds: float) -> None:
    """Go on with the loop's time."""
    for _ in range(round(seconds / TICK_S)):
        await asyncio.sleep(TICK_S)
        clock.tick(TICK_S)
