"""What a run sees of a control plane and an access log."""

import asyncio
import json
import math
from pathlib import Path

import aiohttp
import pytest

from isocost.bench.access_log import AccessLog
from isocost.bench.control_plane import ControlPlane, NodeStatus
from isocost.bench.observer import Observer
from isocost.bench.statistics import Percentiles
from tests.unit.bench.fake_control_plane import fake_control_plane, row


def log_line(request_id: str = "r") -> str:
    entry = {"request_id": request_id, "node": "n", "decision": "reason=picked age_ms=1"}
    return json.dumps(entry) + "\n"


async def test_a_node_takes_traffic_when_it_is_eligible_and_has_weight() -> None:
    assert NodeStatus("n", "serving", 0.1).takes_traffic
    assert NodeStatus("n", "warming", 0.1).takes_traffic
    assert not NodeStatus("n", "serving", 0.0).takes_traffic
    assert not NodeStatus("n", "serving", None).takes_traffic
    assert not NodeStatus("n", "draining", 1.0).takes_traffic


async def test_pages_are_read_and_what_they_do_not_say_is_unknown() -> None:
    async with fake_control_plane() as fake, aiohttp.ClientSession() as session:
        control_plane = ControlPlane(session, fake.url + "/")
        fake.rows = [row("n", entropy="inf", clock_offset_ms=-2.5)]
        (node,) = await control_plane.nodes() or ()
        assert (node.name, node.rack, node.state, node.weight) == ("n", "rack-a", "serving", 0.5)
        assert node.entropy == math.inf
        assert (node.clock_offset_ms, node.kv_usage, node.sample_age_s) == (-2.5, None, None)
        assert await control_plane.push_interval_ms() == Percentiles(None, None)
        fake.push = {"interval_ms": {"p50": 200.0, "p99": 210.0}}
        assert await control_plane.push_interval_ms() == Percentiles(200.0, 210.0)
        for rows in ([{"name": "n"}], ["n"], [None], [7], [[]], [row("n", state=3)], [row(7)]):
            fake.rows = rows  # type: ignore[assignment]
            assert await control_plane.nodes() is None
        fake.rows = [row("n", "heavy", entropy=[], capacity=True, kv_usage=10**400, rack=1)]  # type: ignore[arg-type]
        (node,) = await control_plane.nodes() or ()
        assert (node.weight, node.entropy, node.capacity) == (None, None, None)
        assert (node.kv_usage, node.rack) == (None, None)
        fake.push = {"interval_ms": {"p50": "soon", "p99": None}}
        assert await control_plane.push_interval_ms() == Percentiles(None, None)
        fake.status = 503
        assert await control_plane.nodes() is None
        assert await control_plane.push_interval_ms() == Percentiles(None, None)


async def test_samples_keep_their_time_and_a_silent_control_plane_is_one_without_nodes() -> None:
    async with fake_control_plane() as fake, aiohttp.ClientSession() as session:
        fake.rows = [row("n")]
        observer = Observer(None, ControlPlane(session, fake.url))
        await observer.sample(3.0)
        fake.status = 503
        await observer.sample(4.0)
    assert [sample.at_s for sample in observer.samples] == [3.0, 4.0]
    assert observer.samples[0].nodes is not None and observer.samples[1].nodes is None
    assert observer.latest == {}


class VirtualTime:
    """A control plane whose answers take time, and a clock that goes on only by waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now_s: float, *answers_s: float) -> None:
        self.now_s = now_s
        self._answers_s = answers_s
        self._asked = 0
        self.observer = Observer(None, self)  # type: ignore[arg-type]
        monkeypatch.setattr("isocost.bench.observer.asyncio.sleep", self._sleep)

    async def nodes(self) -> tuple[NodeStatus, ...]:
        if self._asked == len(self._answers_s):
            raise asyncio.CancelledError
        self.now_s += self._answers_s[self._asked]
        self._asked += 1
        return ()

    async def _sleep(self, seconds: float) -> None:
        # A timer may fire a little early.
        self.now_s += max(seconds - 0.001, 0.0)

    async def sampled_at_s(self) -> list[float]:
        with pytest.raises(asyncio.CancelledError):
            await self.observer.sample_each_second(lambda: self.now_s)
        return [round(sample.at_s, 2) for sample in self.observer.samples]


async def test_every_second_is_sampled_in_its_middle_wherever_the_run_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for start_s in (0.0, 0.3, 0.5, 0.7, 0.99):
        time = VirtualTime(monkeypatch, start_s, *[0.02] * 4)
        assert await time.sampled_at_s() == [start_s, 1.5, 2.5, 3.5]


async def test_a_late_answer_costs_its_own_samples_and_moves_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = VirtualTime(monkeypatch, 0.0, 0.01, 2.7, 0.01, 0.01, 0.01)
    assert await time.sampled_at_s() == [0.0, 1.5, 4.5, 5.5, 6.5]
    time = VirtualTime(monkeypatch, 0.0, 0.01, 2.2, 0.01, 0.01)
    assert await time.sampled_at_s() == [0.0, 1.5, 3.7, 4.5]


async def test_rows_that_are_no_objects_do_not_end_the_sampling() -> None:
    async with fake_control_plane() as fake, aiohttp.ClientSession() as session:
        fake.rows = ["n"]
        observer = Observer(None, ControlPlane(session, fake.url))
        first = asyncio.create_task(observer.sample_each_second(lambda: 1.0))
        async with asyncio.timeout(30):
            while not observer.samples:
                assert not first.done()
                await asyncio.sleep(0.01)
        assert not first.done()
        first.cancel()
    assert observer.samples[0].nodes is None


async def test_without_control_plane_and_log_nothing_is_seen() -> None:
    observer = Observer(None, None)
    async with asyncio.timeout(5):
        await observer.sample_each_second(lambda: 0.0)
        await observer.read_log_until(5)
    assert (observer.log, observer.samples) == ([], [])


async def test_reading_until_all_is_logged_ends_when_it_is(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(log_line() * 5)
    observer = Observer(AccessLog(path), None)
    await observer.read_log_until(5)
    assert len(observer.log) == 5


async def test_the_log_of_other_clients_does_not_count_as_ours(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(log_line("other") * 5)
    observer = Observer(AccessLog(path), None)
    reading = asyncio.create_task(observer.read_log_until(1, {"mine"}))
    await asyncio.sleep(0)
    assert not reading.done()
    with path.open("a") as file:
        file.write(log_line("mine"))
    async with asyncio.timeout(10):
        await reading
    assert [entry.request_id for entry in observer.log] == ["other"] * 5 + ["mine"]


def test_what_was_logged_before_the_run_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(log_line("old"))
    log = AccessLog(path)
    log.skip_old()
    with path.open("a") as file:
        file.write(log_line("new"))
    assert [entry.request_id for entry in log.read_new()] == ["new"]
