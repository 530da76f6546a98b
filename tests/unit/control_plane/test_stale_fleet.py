"""Telemetry that is old on every node, or gone: the table goes on with usable numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isocost.model import ABSENT, EngineSample, NodeSample, NodeState, Signal, SignalState
from tests.unit.control_plane.test_pipeline import READY_S, Bench, serving
from tests.unit.fleet_builder import node, sample

NODES = [node(name, address=f"192.0.2.{n}:80") for n, name in enumerate("abcd", start=1)]
SILENCE_S = 60.0


def fleet() -> list[NodeSample]:
    """Four nodes under different loads."""
    return [
        sample(of, free_gb=8.0 - number, kv_usage=0.2 * number, waiting=float(number), net=1e8)
        for number, of in enumerate(NODES, start=1)
    ]


def require_usable(bench: Bench) -> None:
    table = bench.table()
    assert set(bench.states()) <= {NodeState.SERVING, NodeState.SUSPECT}
    for share in (np.array(table.weight), np.array(table.capacity)):
        assert share.shape == (len(NODES),)
        assert np.isfinite(share).all() and (share > 0.0).all()
    for cost in (table.entropy, table.token_s, table.request_s, table.extra_s):
        assert np.isfinite(np.array(cost)).all()


def test_agents_that_all_fall_silent_leave_a_fleet_that_serves() -> None:
    bench = serving(*fleet())
    before = list(bench.table().weight)
    assert len(set(before)) == len(NODES)
    now_s = READY_S
    while now_s < SILENCE_S:
        now_s += 0.2
        bench.tick(now_s)
        require_usable(bench)
    assert set(bench.states()) == {NodeState.SUSPECT}
    # What was known long ago says nothing any more.
    assert list(bench.table().weight) == pytest.approx([1.0] * len(NODES), rel=1e-3)
    # With the agents the differences are back.
    bench.run(now_s + 15.0, *fleet())
    assert set(bench.states()) == {NodeState.SERVING}
    assert list(bench.table().weight) == pytest.approx(before)


@pytest.mark.parametrize("state", [SignalState.STALE, SignalState.ABSENT, SignalState.UNSUPPORTED])
def test_agents_that_can_read_nothing_anywhere_leave_a_fleet_that_serves(
    state: SignalState,
) -> None:
    """Each signal of every node is old, or not there."""
    old = Signal(state, 0.5, 4.0)
    blind = [
        replace(
            of,
            gpus=tuple(replace(gpu, vram_free_bytes=old, pcie_bytes_per_s=old) for gpu in of.gpus),
            engine=EngineSample(old, old, old, old, old, old, ABSENT),
            net_bytes_per_s=old,
        )
        for of in fleet()
    ]
    bench = serving(*fleet())
    bench.run(20.0, *blind)
    require_usable(bench)
    assert set(bench.states()) == {NodeState.SERVING}
