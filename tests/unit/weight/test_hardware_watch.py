"""Findings last from tick to tick: when each began, when it ends, and what it leaves of a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isocost.model import GpuSample, Node, NodeSample, Xid
from isocost.score import hardware
from isocost.score.health_table import HOLD_S, STALE_S, Action
from isocost.weight import hardware_watch
from isocost.weight.hardware_watch import FleetHardware, HardwareWatch
from tests.unit.fleet_builder import node
from tests.unit.hardware_samples import TAKEN_S, WELL, gpu, health, with_gpus, xids
from tests.unit.sample_blocks import fleet_samples

A, B = node("a"), node("b")
TICK_S = 0.2


class Watched:
    """A watch on a clock of its own; ``samples`` are told at every tick."""

    def __init__(self, *samples: NodeSample | None, nodes: tuple[Node, ...] = (A, B)) -> None:
        self.nodes = nodes
        self.samples = list(samples)
        self.now_s = 1000.0
        self.watch = HardwareWatch()

    def tick(self, age_s: float = 0.0) -> FleetHardware:
        self.now_s += TICK_S
        ages_s = [age_s] * len(self.nodes)
        return self.watch.tick(self.nodes, fleet_samples(self.samples), ages_s, self.now_s)

    def run(self, seconds: float) -> FleetHardware:
        for _ in range(round(seconds / TICK_S)):
            found = self.tick()
        return found


def shown(found: FleetHardware, name: str = "a") -> list[tuple[str, str | None, float]]:
    return [
        (item.finding.row.name, item.finding.gpu, item.finding.value)
        for item in found.findings.get(name, ())
    ]


def test_a_well_fleet_has_no_findings() -> None:
    found = Watched(with_gpus(A, gpu()), None).tick()
    assert (found.factor.tolist(), found.action.tolist()) == ([1.0, 1.0], [0, 0])
    assert (found.findings, found.begun, found.ended) == ({}, (), ())


def test_a_node_is_as_well_as_the_worst_of_its_gpus() -> None:
    gpus = (
        gpu(uuid="GPU-0", links=0.75),
        gpu(health(pcie_width=8, row_remap_pending=1), uuid="GPU-1", links=0.9),
        gpu(uuid="GPU-2"),
    )
    found = Watched(with_gpus(A, *gpus), with_gpus(B, gpu(uuid="GPU-3", links=0.9))).tick()
    assert found.factor.tolist() == [0.5, 0.9]
    assert found.action.tolist() == [Action.DRAIN, Action.LOWER]
    assert shown(found)[0] == ("row_remap_pending", "GPU-1", 1.0)
    assert set(shown(found)) == {
        ("row_remap_pending", "GPU-1", 1.0),
        ("nvlinks_down", "GPU-0", 0.75),
        ("nvlinks_down", "GPU-1", 0.9),
        ("pcie_width", "GPU-1", 0.5),
    }
    assert shown(found, "b") == [("nvlinks_down", "GPU-3", 0.9)]


def test_lost_handles_are_a_finding_of_the_whole_node() -> None:
    watched = Watched(with_gpus(A, gpu(), handles_dropped=True), None)
    assert shown(watched.tick()) == [("cuda_handles", None, 1.0)]
    assert watched.tick(age_s=STALE_S).action.tolist() == [Action.DRAIN, 0]
    assert watched.run(HOLD_S).findings
    watched.samples[0] = with_gpus(A, gpu())
    assert watched.run(HOLD_S - TICK_S).findings
    assert not watched.run(2 * TICK_S).findings


def test_old_news_of_lost_handles_is_none() -> None:
    watched = Watched(with_gpus(A, gpu(), handles_dropped=True), None)
    assert watched.tick(age_s=STALE_S + 0.1).findings == {}


def test_a_finding_keeps_its_beginning_and_ends_ten_seconds_after_it_was_seen() -> None:
    watched = Watched(with_gpus(A, gpu(health(clocks_event_reasons=0x40))), None)
    first = watched.tick()
    begun_s = watched.now_s
    assert [(name, item.row.name) for name, item in first.begun] == [("a", "clocks_slowed")]
    assert not watched.run(3.0).begun
    watched.samples[0] = with_gpus(A, gpu())
    held = watched.run(HOLD_S - TICK_S)
    assert held.findings["a"][0].since_s == begun_s
    assert held.factor[0] == 0.5
    ended = watched.run(2 * TICK_S)
    assert ended.factor[0] == 1.0
    assert ended.findings == {}


def test_what_comes_and_goes_within_ten_seconds_is_one_finding() -> None:
    watched = Watched(with_gpus(A, gpu()), None)
    hot, cool = with_gpus(A, gpu(health(clocks_event_reasons=0x40))), with_gpus(A, gpu())
    begun = ended = 0
    factors = set()
    for number in range(40):
        watched.samples[0] = hot if number % 5 == 0 else cool
        for _ in range(5):
            found = watched.tick()
            begun, ended = begun + len(found.begun), ended + len(found.ended)
            factors.add(float(found.factor[0]))
    assert (begun, ended, factors) == (1, 0, {0.5})


def test_the_end_of_a_finding_is_told_once() -> None:
    watched = Watched(with_gpus(A, gpu(lost=True)), None)
    watched.tick()
    watched.samples[0] = with_gpus(A, gpu())
    ended = [item for _ in range(100) for item in watched.tick().ended]
    assert [(name, item.row.name) for name, item in ended] == [("a", "gpu_lost")]


def test_a_low_pcie_generation_counts_when_it_lasts_under_load() -> None:
    slow = with_gpus(A, gpu(health(pcie_generation=1), busy=0.9))
    idle = with_gpus(A, gpu(health(pcie_generation=1), busy=0.0))
    watched = Watched(slow, None)
    assert watched.run(3.0).factor[0] == 1.0
    watched.samples[0] = idle
    assert watched.tick().findings == {}
    watched.samples[0] = slow
    assert watched.run(3.0).factor[0] == 1.0
    found = watched.run(2 * TICK_S)
    assert (found.factor[0], shown(found)) == (0.5, [("pcie_generation", "GPU-0", 0.2)])


def test_each_xid_is_a_finding_of_its_own_and_a_new_one_makes_it_last() -> None:
    watched = Watched(with_gpus(A, gpu(xids(62, 48))), None)
    assert [value for _, _, value in shown(watched.tick())] == [62.0, 48.0]
    begun_s = watched.now_s
    again = replace(WELL, xids=(Xid(48, 2, TAKEN_S + 500.0),))
    later = replace(with_gpus(A, gpu(again)), taken_s=TAKEN_S + 700.0)
    watched.samples[0] = later
    found = watched.run(HOLD_S + TICK_S)
    assert [value for _, _, value in shown(found)] == [48.0]
    assert found.findings["a"][0].since_s == begun_s
    watched.samples[0] = replace(later, taken_s=TAKEN_S + 1101.0)
    assert watched.run(HOLD_S + TICK_S).findings == {}


def test_a_finding_shows_and_does_what_its_value_is_now() -> None:
    watched = Watched(with_gpus(A, gpu(links=0.9)), None)
    watched.tick()
    begun_s = watched.now_s
    watched.samples[0] = with_gpus(A, gpu(links=0.25))
    found = watched.tick()
    assert (found.factor[0], shown(found)) == (0.25, [("nvlinks_down", "GPU-0", 0.25)])
    assert (found.findings["a"][0].since_s, found.begun) == (begun_s, ())


def test_findings_stay_with_their_nodes_when_the_roster_changes() -> None:
    watched = Watched(with_gpus(B, gpu(links=0.5)), nodes=(B,))
    assert watched.tick().factor.tolist() == [0.5]
    watched.nodes, watched.samples = (A, B), [with_gpus(A, gpu()), with_gpus(B, gpu(links=0.5))]
    found = watched.tick()
    assert (found.factor.tolist(), found.begun) == ([1.0, 0.5], ())


def test_a_node_that_left_the_roster_takes_its_findings_along() -> None:
    watched = Watched(with_gpus(A, gpu(lost=True)), with_gpus(B, gpu()))
    watched.tick()
    watched.nodes, watched.samples = (B,), [with_gpus(B, gpu())]
    found = watched.tick()
    assert found.findings == {}
    assert [name for name, _ in found.ended] == ["a"]


def test_a_finding_outlives_a_lost_sample_no_longer_than_any_other() -> None:
    watched = Watched(with_gpus(A, gpu(lost=True)), None)
    watched.tick()
    watched.samples[0] = None
    assert watched.run(HOLD_S - TICK_S).findings
    assert not watched.run(2 * TICK_S).findings


def test_health_that_does_not_change_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counting(of: object) -> tuple[hardware.Suspicion, ...]:
        read.append(of)
        return ()

    monkeypatch.setattr(hardware_watch, "suspicions", counting)
    pending = [gpu(health(row_remap_pending=1), uuid=f"GPU-{n}") for n in range(8)]
    Watched(with_gpus(A, *pending), None).run(5.0)
    assert len(read) == 8


def test_changed_health_is_never_taken_for_what_was_there_before() -> None:
    """Objects that are gone leave their identity to others."""
    watched = Watched(with_gpus(A, gpu()), None)
    for number in range(10_000):
        pending = number % 2
        fresh: GpuSample = gpu(health(row_remap_pending=pending), uuid=f"GPU-{number}")
        watched.samples[0] = with_gpus(A, fresh)
        found = watched.tick()
        assert (("row_remap_pending", fresh.uuid, 1.0) in shown(found)) == bool(pending)
