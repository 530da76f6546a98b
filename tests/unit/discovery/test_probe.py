"""The control plane's own look at nodes that no agent speaks for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from isocost.discovery import probe
from isocost.discovery.probe import TRIES, Probes, connect


class Machines:
    """Who takes connections. ``most`` is how many attempts were open at once."""

    def __init__(self, *answering: str) -> None:
        self.answering = set(answering)
        self.tried: Counter[str] = Counter()
        self.open = self.most = 0
        self.hang = False

    async def connect(self, address: str) -> bool:
        self.tried[address] += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await asyncio.sleep(0.01 if self.hang else 0)
        finally:
            self.open -= 1
        return address in self.answering


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "INTERVAL_S", 0.01)
    monkeypatch.setattr(probe, "BETWEEN_S", 0.0)


@asynccontextmanager
async def running(probes: Probes) -> AsyncIterator[None]:
    task = asyncio.create_task(probes.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 5.0
    while not true():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0)


async def test_three_refusals_in_a_row_make_a_node_unreachable_and_one_answer_brings_it_back() -> (
    None
):
    machines = Machines("good")
    probes = Probes(machines.connect, Random(1))
    probes.want({"good", "ghost"})
    async with running(probes):
        await until(lambda: bool(probes.unreachable))
        assert probes.unreachable == {"ghost"}
        assert machines.tried["ghost"] >= TRIES
        machines.answering.add("ghost")
        await until(lambda: not probes.unreachable)


async def test_a_node_that_answers_the_second_time_is_there() -> None:
    machines = Machines()

    async def second(address: str) -> bool:
        await machines.connect(address)
        return machines.tried[address] == 2

    probes = Probes(second, Random(1))
    probes.want({"a"})
    await probes.check("a")
    assert machines.tried["a"] == 2 and not probes.unreachable


async def test_who_is_not_wanted_any_more_is_neither_tried_nor_unreachable() -> None:
    machines = Machines()
    probes = Probes(machines.connect, Random(1))
    probes.want({"a"})
    await probes.check("a")
    assert probes.unreachable == {"a"}
    probes.want({"b"})
    assert not probes.unreachable
    await probes.check("a")
    assert not probes.unreachable


async def test_what_is_found_is_the_same_object_while_nothing_changes() -> None:
    probes = Probes(Machines().connect, Random(1))
    probes.want({"a"})
    await probes.check("a")
    found = probes.unreachable
    await probes.check("a")
    probes.want({"a", "b"})
    assert probes.unreachable is found


async def test_a_new_address_is_tried_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "MOST_PER_S", 10_000.0)
    old = {f"n{number}" for number in range(100)}
    machines = Machines(*old, "new")
    probes = Probes(machines.connect, Random(1))
    probes.want(old)
    async with running(probes):
        await until(lambda: machines.tried.keys() == old)
        # From now on the next round takes for ever.
        monkeypatch.setattr(probe, "INTERVAL_S", 1e6)
        probes.want({*old, "new"})
        await until(lambda: "new" in machines.tried)


async def test_a_large_fleet_that_hangs_is_tried_at_a_bounded_rate_and_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "MOST_PER_S", 10_000.0)
    monkeypatch.setattr(probe, "_AT_ONCE", 8)
    machines = Machines()
    machines.hang = True
    probes = Probes(machines.connect, Random(1))
    probes.want({f"n{number}" for number in range(1000)})
    async with running(probes):
        await until(lambda: machines.tried.total() >= 100)
    assert machines.most <= 8


async def test_each_address_is_tried_less_often_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "MOST_PER_S", 100.0)
    addresses = {f"n{number}" for number in range(20)}
    machines = Machines(*addresses)
    probes = Probes(machines.connect, Random(1))
    probes.want(addresses)
    began_s = time.monotonic()
    async with running(probes):
        await until(lambda: machines.tried.total() >= 20)
    # Each pause is a fifth shorter at most.
    assert time.monotonic() - began_s >= 0.8 * 19 / 100.0


async def test_a_port_that_listens_answers_and_one_that_does_not_refuses() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await connect(f"127.0.0.1:{port}")
    assert not await connect(f"127.0.0.1:{port}")
