"""A VM's share of the requests: smooth, in sum one, and unknown while nothing comes."""

from __future__ import annotations

import math

import pytest

from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver
from isocost.observe.inflight import VM_GONE_S
from isocost.status import envoy_status


def batch(vm: int, sequence: int, started: int, envoy: str = "edge") -> Batch:
    return Batch(envoy, vm, sequence, (NodeObservation(7, started=started),))


def served(seconds: float, per_tick: dict[int, int]) -> tuple[FleetObserver, float]:
    observer = FleetObserver(10.0, 5.0)
    for tick in range(1, round(seconds / 0.2) + 1):
        for vm, started in per_tick.items():
            observer.apply(batch(vm, tick, started), tick * 0.2)
    observer.view([7], seconds)
    return observer, seconds


def shares(observer: FleetObserver, now_s: float) -> dict[int, float]:
    return {vm.incarnation: vm.share for vm in observer.seen(now_s)}


def test_shares_follow_the_requests_and_add_up() -> None:
    found = shares(*served(10.0, {1: 90, 2: 10}))
    assert found[1] == pytest.approx(0.9, abs=0.01)
    assert math.fsum(found.values()) == pytest.approx(1.0)


def test_a_shift_of_the_traffic_shows_within_seconds() -> None:
    observer, now_s = served(30.0, {1: 90, 2: 10})
    for tick in range(25):
        now_s += 0.2
        observer.apply(batch(1, 1000 + tick, 10), now_s)
        observer.apply(batch(2, 1000 + tick, 90), now_s)
    observer.view([7], now_s)
    assert shares(observer, now_s)[2] > 0.7


def test_an_envoy_is_shown_with_the_share_of_all_its_workers() -> None:
    observer = FleetObserver(10.0, 5.0)
    for vm, (envoy, started) in enumerate((("edge-1", 600), ("edge-1", 300), ("edge-2", 100))):
        observer.apply(batch(vm, 1, started, envoy), 0.0)
    assert [shown["share"] for shown in envoy_status(observer).values()] == [None, None]
    observer.view([7], 0.0)
    observer.seen(0.0)
    shown = {envoy: shown["share"] for envoy, shown in envoy_status(observer).items()}
    assert shown == {"edge-1": pytest.approx(0.9, abs=0.01), "edge-2": pytest.approx(0.1, abs=0.01)}
    # Nobody knows whom the next request goes to.
    observer.seen(60.0)
    assert [shown["share"] for shown in envoy_status(observer).values()] == [None, None]


def test_without_requests_nobody_has_a_share() -> None:
    assert shares(*served(2.0, {1: 0, 2: 0})) == {1: 0.0, 2: 0.0}


def test_of_a_few_requests_all_vms_count_nearly_alike() -> None:
    found = shares(*served(0.2, {1: 1, 2: 0}))
    assert found == {1: pytest.approx(2 / 3), 2: pytest.approx(1 / 3)}


def test_seen_is_the_last_batch_that_counts_and_ends_with_the_vm() -> None:
    observer = FleetObserver(10.0, 5.0)
    observer.apply(batch(1, 5, 1), 0.0)
    observer.apply(batch(1, 4, 1), 0.1)
    observer.apply(batch(2, 9, 1), VM_GONE_S)
    observer.view([7], VM_GONE_S)
    assert {vm.incarnation: vm.sequence for vm in observer.seen(VM_GONE_S)} == {1: 5, 2: 9}
    observer.view([7], VM_GONE_S + 0.1)
    assert [vm.incarnation for vm in observer.seen(VM_GONE_S + 0.1)] == [2]
