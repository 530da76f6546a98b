"""What operators set goes through the daemon to disk and table, and back after a restart."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import time
from collections.abc import Set
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from aiohttp import web

from isocost import admin, first_roster, manual
from isocost.config import ControlPlaneConfig, DiscoverySettings, FilterSettings
from isocost.config_consul import ConsulDiscoverySettings
from isocost.config_source import ConfigSource
from isocost.daemon import ControlPlane, serve
from isocost.discovery.consul import ConsulWatch
from isocost.errors import ConfigError, RejectedError, StateError
from isocost.manual import Manual, Note
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.inflight import VM_GONE_S
from isocost.observe.workers import WorkerCount
from isocost.push import ads
from isocost.push.variant import WHOLE
from isocost.weight.override import Override
from tests.unit.fleet_builder import node, sample
from tests.unit.sample_blocks import agent_report

NOTE = Note("ana@ops", 1_790_000_000.0, "fan")
A = node("a", address="192.0.2.1:80")
B = node("b", address="192.0.2.2:80")


def daemon(state_dir: Path | None) -> ControlPlane:
    """A control plane that serves nobody; its fleet is a and b."""
    made = ControlPlane(ControlPlaneConfig(state_dir=None if state_dir is None else str(state_dir)))
    now_s = time.monotonic()
    made._registry.receive(agent_report("agent", 1, 0.0, 0.0, (sample(A), sample(B))), now_s)
    made._pipeline.tick(now_s, 1_790_000_000_000)
    made._pipeline.tick(now_s + 0.4, 1_790_000_000_400)
    return made


async def page(of: ControlPlane) -> Any:
    return json.loads(await of.nodes_page(signals=False))


async def row(of: ControlPlane, name: str) -> dict[str, Any]:
    rows = (await page(of))["nodes"]
    return dict(next(item for item in rows if item["name"] == name))


async def test_settings_by_hand_survive_a_restart(tmp_path: Path) -> None:
    first = daemon(tmp_path)
    await first.drain("a", True, NOTE)
    await first.override("b", {"entropy": "inf"}, NOTE)
    again = daemon(tmp_path)
    assert (await row(again, "a"))["state"] == "draining"
    assert (await row(again, "a"))["drain"] == {
        "who": "ana@ops",
        "at_unix_s": 1_790_000_000.0,
        "why": "fan",
    }
    assert (await row(again, "b"))["entropy"] == "inf"
    assert (await row(again, "b"))["override"] == {"entropy": "inf", **NOTE.json()}
    await again.drain("a", False, NOTE)
    await again.override("b", None, NOTE)
    assert manual.load(tmp_path) == Manual()


async def test_settings_of_nodes_that_are_not_there_are_kept_shown_and_removable(
    tmp_path: Path,
) -> None:
    kept = Manual().drained("gone", NOTE).overridden("gone", Override(weight=0.5), NOTE)
    manual.save(tmp_path, kept)
    running = daemon(tmp_path)
    assert (await page(running))["unseen"] == [
        {"name": "gone", "drain": NOTE.json(), "override": {"weight": 0.5, **NOTE.json()}}
    ]
    await running.drain("a", True, NOTE)
    assert manual.load(tmp_path).drains.keys() == {"a", "gone"}
    await running.drain("gone", False, NOTE)
    assert manual.load(tmp_path).drains.keys() == {"a"}


async def test_what_could_not_be_kept_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = daemon(tmp_path)

    def fail(*_: object) -> None:
        raise StateError("no space left")

    monkeypatch.setattr(manual, "save", fail)
    with pytest.raises(StateError):
        await running.drain("a", True, NOTE)
    assert (await row(running, "a"))["drain"] is None


async def test_without_a_folder_settings_work_and_the_log_says_that_they_will_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "isocost.daemon"):
        running = daemon(None)
    assert [line for line in caplog.messages if "state_dir" in line] == [
        "no state_dir is configured: settings by hand end with this process"
    ]
    await running.override("a", {"weight": 0.5}, NOTE)
    assert (await row(running, "a"))["override"]["weight"] == 0.5


@pytest.mark.parametrize(
    ("data", "words"), [({"weight": 2}, "weight: 2"), ({}, "override is"), ({"w": 1}, "'w'")]
)
async def test_a_bad_number_is_refused_and_nothing_is_kept(
    tmp_path: Path, data: dict[str, object], words: str
) -> None:
    running = daemon(tmp_path)
    with pytest.raises(RejectedError, match=words):
        await running.override("a", data, NOTE)
    with pytest.raises(RejectedError, match="no node 'x'; known: a, b"):
        await running.drain("x", True, NOTE)
    assert manual.load(tmp_path) == Manual()


def test_a_bad_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / manual.FILE_NAME).write_text("{")
    with pytest.raises(ConfigError, match=r"manual\.json"):
        daemon(tmp_path)


async def test_a_row_tells_state_reason_and_since_when() -> None:
    told = await row(daemon(None), "a")
    assert (told["state"], told["reason"]) == ("serving", "ok")
    assert told["state_age_s"] == 0.0
    assert told["since_unix_s"] == pytest.approx(1_790_000_000.4)
    assert told["share_factor"] == 1.0
    assert told["failure_ratio"] == 0.0
    assert (told["drain"], told["override"]) == (None, None)


def test_readiness_ends_when_no_tick_succeeds_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = ControlPlane(ControlPlaneConfig(filter=FilterSettings(max_table_age_ms=1000)))
    assert made.not_ready() == "no node is known yet"
    start_s = time.monotonic()
    made._registry.receive(agent_report("agent", 1, 0.0, 0.0, (sample(A),)), start_s)
    monkeypatch.setattr(time, "monotonic", lambda: start_s + 0.5)
    for now_s in (start_s, start_s + 0.5):
        made._tick(now_s, 1_790_000_000_000)
    assert made.not_ready() is None

    def fail(*_: object) -> None:
        raise OverflowError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(made._registry, "view", fail)
        made._tick(start_s + 0.7, 1_790_000_000_200)
        patch.setattr(time, "monotonic", lambda: start_s + 1.4)
        assert made.not_ready() is None
        patch.setattr(time, "monotonic", lambda: start_s + 2.0)
        words = "the last table is 1.5 s old; ticks fail: OverflowError('too large')"
        assert made.not_ready() == words
    made._tick(start_s + 0.9, 1_790_000_000_400)
    assert made.not_ready() is None
    patch_s = start_s + 200.0
    monkeypatch.setattr(time, "monotonic", lambda: patch_s)
    made._registry.receive(agent_report("agent", 2, 200.0, 200.0, ()), patch_s)
    made._tick(patch_s, 1_790_000_200_000)
    assert made.not_ready() == "no node is known: neither an agent nor a list names one"


async def test_a_state_folder_that_cannot_be_is_named_by_the_file_it_is_from(
    tmp_path: Path,
) -> None:
    path = tmp_path / "control-plane.yaml"
    path.write_text(f"state_dir: {path}/state\n")
    with pytest.raises(ConfigError, match=r"^\S+/control-plane\.yaml: state_dir: "):
        await serve(ConfigSource(ControlPlaneConfig, path).load())


def test_a_source_that_says_nothing_is_why_no_node_is_known() -> None:
    settings = DiscoverySettings(consul=ConsulDiscoverySettings())
    made = ControlPlane(ControlPlaneConfig(discovery=settings))
    assert made.not_ready() == "no node is known yet; consul: it has not answered yet"
    watch = made._watches[0]
    assert isinstance(watch, ConsulWatch)
    watch._failed("wrong scheme")
    assert made.not_ready() == "no node is known yet; consul: wrong scheme"


def test_an_error_of_another_kind_or_place_is_logged_once_as_well(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = daemon(None)
    number = 0

    def first(*_: object) -> None:
        raise ValueError(f"request {number}")

    def second(*_: object) -> None:
        raise ValueError("elsewhere")

    def third(*_: object) -> None:
        raise OverflowError

    for fail in (first, first, second, second, third, first):
        monkeypatch.setattr(made._registry, "view", fail)
        number += 1
        made._tick(time.monotonic(), 1_790_000_001_000)
    logged = [record.exc_info for record in caplog.records if "a tick failed" in record.message]
    assert [str(info[1]) for info in logged if info] == ["request 1", "elsewhere", "", "request 6"]


async def test_conflicts_and_a_bad_discovery_file_are_in_status_and_metrics(
    tmp_path: Path,
) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text("nodes: []\n")
    made = ControlPlane(ControlPlaneConfig(discovery=DiscoverySettings(file=str(path))))
    shown: Any = made.status()["discovery"]
    assert shown["conflicts"] == [] and shown["sources"][0]["error"] is None
    lines = (await made.metrics_page()).decode().splitlines()
    assert "isocost_discovery_conflicts 0.0" in lines
    assert 'isocost_discovery_source_error{source="file"} 0.0' in lines
    path.write_text("nodes: 7\n")
    now_s = time.monotonic()
    for agent in ("one", "two"):
        made._registry.receive(agent_report(agent, 1, 0.0, 0.0, (sample(A),)), now_s)
    deadline_s = now_s + 5.0
    while made._registry.sources[0].error is None and time.monotonic() < deadline_s:
        now_s += 0.001
        made._registry.view(now_s + 1.0)
        await asyncio.sleep(0.01)
    shown = made.status()["discovery"]
    assert "node a is claimed by agent" in shown["conflicts"][0]
    assert "nodes: 7 is not allowed" in shown["sources"][0]["error"]
    lines = (await made.metrics_page()).decode().splitlines()
    assert "isocost_discovery_conflicts 1.0" in lines
    assert 'isocost_discovery_source_error{source="file"} 1.0' in lines


async def test_a_dead_worker_and_stale_choices_are_shown_while_their_envoy_reports() -> None:
    made = daemon(None)
    now_s = time.monotonic()
    made._observer.apply(Batch("edge-1", 1, 1, (), stale_choices=7), now_s)
    made._observer.apply_workers("edge-1", WorkerCount(3, 4), now_s)
    status = made.status()
    workers = {"live": 3, "expected": 4}
    assert status["envoys"] == {"edge-1": {"workers": workers, "share": None}}
    assert status["stale_choices"] == 7
    lines = (await made.metrics_page()).decode().splitlines()
    assert 'isocost_envoy_workers_live{envoy="edge-1"} 3.0' in lines
    assert 'isocost_envoy_workers_missing{envoy="edge-1"} 1.0' in lines
    assert "isocost_stale_choices_total 7.0" in lines
    made._pipeline.tick(now_s + VM_GONE_S + 0.1, 1_790_000_004_000)
    assert made.status()["envoys"] == {}
    lines = (await made.metrics_page()).decode().splitlines()
    assert not any(line.startswith("isocost_envoy_workers_live{") for line in lines)
    assert "isocost_stale_choices_total 7.0" in lines


async def test_what_the_gateways_saw_of_a_node_and_how_it_stands_is_in_the_metrics() -> None:
    made = daemon(None)
    now_s = time.monotonic() + 1.0
    seen = NodeObservation(
        A.id,
        started=9,
        succeeded=4,
        client_errors=1,
        rate_limited=1,
        server_errors=2,
        failed_attempts=1,
        first_byte_count=2,
        first_byte_ms_sum=500.0,
        tpot_count=2,
        tpot_ms_sum=40.0,
    )
    made._observer.apply(Batch("edge-1", 1, 1, (seen,)), now_s)
    await made.drain("b", True, NOTE)
    made._pipeline.tick(now_s, 1_790_000_002_000)
    lines = (await made.metrics_page()).decode().splitlines()
    assert 'isocost_node_requests_total{node="a"} 9.0' in lines
    assert 'isocost_node_good_answers_total{node="a"} 5.0' in lines
    assert 'isocost_node_failures_total{node="a"} 3.0' in lines
    assert 'isocost_node_rate_limited_total{node="a"} 1.0' in lines
    assert 'isocost_node_first_byte_seconds{node="a"} 0.25' in lines
    assert 'isocost_node_output_token_seconds{node="a"} 0.02' in lines
    assert 'isocost_node_requests_total{node="b"} 0.0' in lines
    assert 'isocost_node_first_byte_seconds{node="b"} NaN' in lines
    (state,) = [line for line in lines if line.startswith('isocost_node_state{node="b"')]
    assert f'rack="{B.rack}"' in state and 'state="draining"' in state
    # No client has had two tables.
    assert not any(line.startswith("isocost_push_interval_seconds{") for line in lines)


async def test_why_answers_ended_and_their_tokens_are_shown_also_while_there_are_none() -> None:
    made = daemon(None)
    assert made.status()["answers"] == {"stop": 0, "length": 0, "tool": 0, "other": 0}
    lines = (await made.metrics_page()).decode().splitlines()
    for finish in ("stop", "length", "tool", "other"):
        assert f'isocost_answers_total{{finish="{finish}"}} 0.0' in lines
    assert "isocost_output_tokens_total 0.0" in lines
    nodes = (
        NodeObservation(7, finish_stop=1, finish_length=2, output_tokens=30),
        NodeObservation(8, finish_stop=2, finish_tool=4, finish_other=5, output_tokens=12),
    )
    once = Batch("edge-1", 1, 1, nodes)
    for batch in (once, once, Batch("edge-1", 1, 2, ())):
        made._observer.apply(batch, time.monotonic())
    assert made.status()["answers"] == {"stop": 3, "length": 2, "tool": 4, "other": 5}
    lines = (await made.metrics_page()).decode().splitlines()
    assert 'isocost_answers_total{finish="stop"} 3.0' in lines
    assert 'isocost_answers_total{finish="other"} 5.0' in lines
    assert "isocost_output_tokens_total 42.0" in lines


async def test_the_nodes_page_is_made_once_per_table_and_change_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, rows = daemon(None), 0
    outcomes = made._observer.outcomes

    def counted(node_id: int) -> dict[str, int]:
        nonlocal rows
        rows += 1
        return outcomes(node_id)

    monkeypatch.setattr(made._observer, "outcomes", counted)
    pages = await asyncio.gather(*(made.nodes_page(signals=False) for _ in range(5)))
    assert rows == 2
    assert len(set(pages)) == 1
    await made.drain("a", True, NOTE)
    assert (await row(made, "a"))["drain"] is not None
    assert rows == 4
    made._tick(time.monotonic() + 1.0, 1_790_000_001_000)
    assert (await row(made, "a"))["state"] == "draining"
    assert rows == 6


async def test_pages_of_a_large_fleet_let_the_loop_run_between_their_parts() -> None:
    made = ControlPlane(ControlPlaneConfig())
    nodes = [node(f"n{i}", address=f"192.0.2.{i % 250}:{8000 + i}") for i in range(320)]
    now_s = time.monotonic()
    samples = tuple(sample(item) for item in nodes)
    made._registry.receive(agent_report("agent", 1, 0.0, 0.0, samples), now_s)
    made._tick(now_s, 1_790_000_000_000)
    made._tick(now_s + 0.4, 1_790_000_000_400)
    for made_page in (
        made.nodes_page(signals=False),
        made.nodes_page(signals=True),
        made.metrics_page(),
    ):
        turns, making = 0, asyncio.ensure_future(made_page)
        while not making.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 8
    assert len((await page(made))["nodes"]) == 320


async def test_the_names_of_the_roster_are_kept_for_the_next_control_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isocost.daemon._KEEP_ROSTER_S", 0.01)
    first = daemon(tmp_path)
    keeping = asyncio.create_task(first._keep_roster_forever(tmp_path))
    kept, save = asyncio.Event(), first_roster.save
    loop = asyncio.get_running_loop()

    def and_tell(folder: Path, names: Set[str]) -> None:
        save(folder, names)
        loop.call_soon_threadsafe(kept.set)

    monkeypatch.setattr(first_roster, "save", and_tell)
    try:
        async with asyncio.timeout(5.0):
            await kept.wait()
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    again = ControlPlane(ControlPlaneConfig(state_dir=str(tmp_path)))
    now_s = time.monotonic()
    again._registry.receive(agent_report("one", 1, 0.0, 0.0, (sample(A),)), now_s)
    for late_s in (0.0, 0.5, 2.9):
        again._tick(now_s + late_s, 1_790_000_000_000)
    assert again._pipeline.nodes == ()
    again._registry.receive(agent_report("two", 1, 0.0, 0.0, (sample(B),)), now_s + 3.0)
    again._tick(now_s + 3.1, 1_790_000_003_000)
    assert [item.name for item in again._pipeline.nodes] == ["a", "b"]


async def test_a_stop_under_open_streams_is_quick_and_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as one, socket.socket() as two:
        for probe in (one, two):
            probe.bind(("127.0.0.1", 0))
        listen, http = (f"127.0.0.1:{probe.getsockname()[1]}" for probe in (one, two))
    made = ControlPlane(ControlPlaneConfig(listen=listen, http=http))
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    begun, order = asyncio.Event(), admin._order

    async def beginning(request: web.Request) -> tuple[dict[str, object], Note]:
        begun.set()
        return await order(request)

    monkeypatch.setattr(admin, "_order", beginning)
    stop = asyncio.Event()
    running = asyncio.create_task(made.run(stop))
    async with grpc.aio.insecure_channel(listen) as channel:
        streams = [
            channel.stream_stream(f"/{service}")()
            for service in (f"{ads.SERVICE}/{WHOLE.method}", "isocost.v1.Observations/Report")
        ] + [channel.stream_unary("/isocost.v1.Telemetry/Report")()]
        async with asyncio.timeout(5.0):
            for stream in streams:
                await stream.wait_for_connection()
                await stream.write(b"")
            # A request whose body never ends.
            host, _, port = http.rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"PUT /v1/nodes/a/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
            await begun.wait()
            stop.set()
            await running
            writer.close()
            codes = [await stream.code() for stream in streams]
    assert grpc.StatusCode.OK not in codes
    gc.collect()
    assert failures == []
    assert [record.message for record in caplog.records if record.exc_info] == []


async def test_a_folder_that_takes_no_names_is_told_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("isocost.daemon._KEEP_ROSTER_S", 0.01)
    tries, tried_often, save = 0, asyncio.Event(), first_roster.save
    loop = asyncio.get_running_loop()

    def full(folder: Path, names: Set[str]) -> None:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise StateError("no space left")
        save(folder, names)
        loop.call_soon_threadsafe(tried_often.set)

    monkeypatch.setattr(first_roster, "save", full)
    keeping = asyncio.create_task(daemon(tmp_path)._keep_roster_forever(tmp_path))
    try:
        async with asyncio.timeout(5.0):
            await tried_often.wait()
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert caplog.messages.count("no space left") == 1
    assert first_roster.load(tmp_path) == {"a", "b"}


async def test_a_number_that_the_policy_ignores_is_refused() -> None:
    made = daemon(None)
    with pytest.raises(RejectedError, match="no effect"):
        await made.override("a", {"entropy": 3}, NOTE)
    assert (await row(made, "a"))["override"] is None


async def test_open_requests_that_no_gateway_told_are_not_shown_as_zero() -> None:
    made = daemon(None)
    assert (await row(made, "a"))["in_flight"] is None
    lines = (await made.metrics_page()).decode().splitlines()
    assert 'isocost_node_in_flight{node="a"} NaN' in lines
    made._observer.apply(Batch("edge", 1, 1, ()), time.monotonic())
    made._tick(time.monotonic() + 0.5, 1_790_000_001_000)
    assert (await row(made, "a"))["in_flight"] == 0
