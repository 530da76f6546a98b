"""What an Envoy says of its workers is shown as long as it speaks."""

from __future__ import annotations

from isocost.observe.batch import Batch
from isocost.observe.fleet import FleetObserver
from isocost.observe.inflight import VM_GONE_S
from isocost.observe.workers import WorkerCount
from isocost.status import envoy_status

BATCH = Batch("edge-1", incarnation=1, sequence=1, nodes=())


def observer() -> FleetObserver:
    return FleetObserver(latency_window_s=10.0, evidence_window_s=5.0)


def test_the_last_word_of_each_envoy_is_shown() -> None:
    seen = observer()
    seen.apply_workers("edge-1", WorkerCount(4, 4), 0.0)
    seen.apply_workers("edge-2", WorkerCount(2, 2), 0.0)
    seen.apply_workers("edge-1", WorkerCount(3, 4), 0.2)
    assert envoy_status(seen) == {
        "edge-1": {"workers": {"live": 3, "expected": 4}, "share": None},
        "edge-2": {"workers": {"live": 2, "expected": 2}, "share": None},
    }
    assert seen.envoys()["edge-1"] == WorkerCount(3, 4)


def test_an_envoy_whose_workers_are_all_dead_is_still_shown() -> None:
    seen = observer()
    seen.apply(BATCH, 0.0)
    seen.apply_workers("edge-1", WorkerCount(0, 1), VM_GONE_S + 0.1)
    seen.view([], VM_GONE_S + 0.2)
    assert seen.envoys() == {"edge-1": WorkerCount(0, 1)}


def test_an_envoy_that_does_not_say_has_no_number() -> None:
    seen = observer()
    seen.apply(BATCH, 0.0)
    assert envoy_status(seen) == {"edge-1": {"workers": None, "share": None}}


def test_an_envoy_that_fell_silent_is_dropped() -> None:
    seen = observer()
    for number in range(1000):
        seen.apply_workers(f"edge-{number}", WorkerCount(1, 1), 0.0)
    seen.apply_workers("edge-0", WorkerCount(1, 1), VM_GONE_S)
    seen.view([], VM_GONE_S + 0.1)
    assert list(seen.envoys()) == ["edge-0"]
