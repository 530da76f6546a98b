"""What control_scale makes of its runs; and that its load is what a control plane reads."""

from __future__ import annotations

import asyncio

import grpc

from isocost.config import DiscoverySettings
from isocost.discovery.registry import Registry
from isocost.discovery.report import ReportReader
from isocost.discovery.telemetry_service import TelemetryService
from isocost.observe.fleet import FleetObserver
from isocost.push import observation_service
from isocost.v1 import observation_pb2
from tests.benchmark.control_scale import Run, judge
from tests.benchmark.raw_grpc import ClientStream
from tests.benchmark.scale_traffic import NODES_PER_AGENT, VARIANTS, VMS, AgentTraffic, EnvoyTraffic
from tests.integration.harness.wait import wait_until
from tests.unit.sample_blocks import samples_of

GOOD = Run(cpu=0.2, rss_mb=150.0, interval_p99_ms=205.0, tables=400, delivered=1.0, machine=0.5)


def changed(**numbers: float) -> Run:
    return Run(**{name: getattr(GOOD, name) for name in GOOD.__slots__} | numbers)


def test_each_bar_is_held_by_the_median_of_its_runs() -> None:
    entries = judge("1024", [GOOD, changed(cpu=0.24, interval_p99_ms=230.0), changed(cpu=0.9)])
    assert [(entry.name, entry.value, entry.ok) for entry in entries] == [
        ("control.cpu_fraction.1024x4", 0.24, True),
        ("control.rss_mb.1024x4", 150.0, True),
        ("push.interval_p99_ms.1024", 205.0, True),
    ]
    missed = judge("1024", [changed(cpu=0.26, rss_mb=201.0, interval_p99_ms=221.0)])
    assert [entry.ok for entry in missed] == [False, False, False]


def test_ten_thousand_nodes_have_a_core_and_no_bar_for_memory() -> None:
    cpu, memory, interval = judge("10240", [changed(cpu=0.99, rss_mb=900.0)])
    assert (cpu.name, cpu.ok, cpu.bar) == ("control.cpu_fraction.10240", True, "<= 1")
    assert (memory.ok, memory.bar) == (True, "none")
    assert (interval.name, interval.ok) == ("push.interval_p99_ms.10240", True)


def test_a_control_plane_that_did_not_take_its_load_keeps_no_bar() -> None:
    entries = judge("10240", [GOOD, changed(delivered=0.5), GOOD])
    assert [entry.ok for entry in entries if entry.bar != "none"] == [False, False]
    assert "only 50 %" in entries[0].note


def test_what_the_load_says_for_an_agent_is_a_report_of_its_nodes() -> None:
    traffic, reader = AgentTraffic(3), ReportReader()
    for sequence in range(2 * VARIANTS):
        report = reader.read(traffic.report(sequence, 1.5, 2.5), 1.0)
        assert (report.agent, report.sequence, report.wall_unix_s) == ("agent-3", 1 + sequence, 1.5)
        names = [sample.node.name for sample in samples_of(report)]
        assert names == [f"node-{3 * NODES_PER_AGENT + place:05}" for place in range(8)]
        assert all(sample.engine_up for sample in samples_of(report))


def test_what_the_load_says_for_an_envoy_is_counted() -> None:
    observer = FleetObserver(10.0, 5.0)
    traffic = EnvoyTraffic(0, [5, 6, 7], requests_per_s=100.0)
    for sequence in (1, 2):
        for data in traffic.reports(sequence, 1000.0):
            report = observation_pb2.ObservationReport.FromString(data)
            observation_service.take(report, observer, 0.2 * sequence)
    observed = observer.view((5, 6, 7), 0.5)
    # 100 requests a second are 10 for each VM and interval.
    assert observed.total.started.sum() == 2 * VMS * 10
    assert observed.in_flight.sum() == VMS * (3 * 2 + 10)
    assert observer.history.answers == 2 * VMS * 10


async def test_the_cheap_stream_is_one_that_grpc_takes() -> None:
    registry = Registry(DiscoverySettings(), 0.0)
    server = grpc.aio.server()
    TelemetryService(registry).add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(
        lambda: ClientStream("/isocost.v1.Telemetry/Report", "control-plane"), "127.0.0.1", port
    )
    traffic = AgentTraffic(0)
    # More than a stream may send before it is let: the server's window opens again.
    for sequence in range(60):
        report = traffic.report(sequence, 1.5, float(sequence))
        await wait_until(lambda data=report: stream.send(data), "the server lets a report in")
    await wait_until(
        lambda: (
            registry.first_discovery_done(0.0) and registry.view(0.0).samples.taken_s(0) == 59.0
        ),
        "the last report came",
    )
    assert not stream.ended
    await server.stop(0)


async def test_the_cheap_stream_knows_that_it_was_refused() -> None:
    server = grpc.aio.server()
    TelemetryService(Registry(DiscoverySettings(), 0.0)).add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(
        lambda: ClientStream("/isocost.v1.Telemetry/Report", "control-plane"), "127.0.0.1", port
    )
    assert stream.send(b"\xff\xff")
    await wait_until(lambda: stream.ended, "the server refused")
    assert not stream.send(b"")
    await server.stop(0)
