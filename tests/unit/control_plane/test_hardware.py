"""From a sample to the next table: what the health table does, what is shown of it and logged."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from isocost.model import GpuSample, NodeSample, NodeState
from isocost.score.health_table import HOLD_S, ROWS
from isocost.status import fleet_gauges, node_rows
from isocost.weight.standing import Reason
from tests.unit.control_plane.test_pipeline import READY_S, Bench, serving
from tests.unit.fleet_builder import node
from tests.unit.hardware_samples import gpu, health, with_gpus, xids

NODES = [node(name, address=f"192.0.2.{n}:80") for n, name in enumerate("abcd", start=1)]
ILL = 1

SERVES, HALF = (NodeState.SERVING, Reason.OK, 1.0), (NodeState.SERVING, Reason.OK, 0.5)
DRAINS = (NodeState.DRAINING, Reason.HARDWARE, 0.0)
OUT = (NodeState.EJECTED, Reason.HARDWARE, 0.0)

#: What is told of one of two GPUs, and what becomes of its node's state and share.
FAULTS = {
    "Xid 31": (gpu(xids(31)), SERVES),
    "Xid 48": (gpu(xids(48)), OUT),
    "Xid 63": (gpu(xids(63)), SERVES),
    "Xid 74": (gpu(xids(74)), HALF),
    "Xid 79": (gpu(xids(79)), OUT),
    "Xid 94": (gpu(xids(94)), HALF),
    "Xid 95": (gpu(xids(95)), OUT),
    "Xids 62 and 45": (gpu(xids(62, 45)), OUT),
    "GPU lost": (gpu(lost=True), OUT),
    "an NVLink down": (gpu(links=0.75), (NodeState.SERVING, Reason.OK, 0.75)),
    "all NVLinks down": (gpu(links=0.0), DRAINS),
    "CRC storm": (gpu(health(nvlink_crc_errors_per_minute=1e5)), HALF),
    "PCIe at half width": (gpu(health(pcie_width=8)), HALF),
    "PCIe replays": (gpu(health(pcie_replays_per_minute=60)), HALF),
    "ECC": (gpu(health(ecc_uncorrected=1)), DRAINS),
    "remap pending": (gpu(health(row_remap_pending=1)), DRAINS),
    "remap failed": (gpu(health(row_remap_failed=1)), OUT),
    "thermal brake": (gpu(health(clocks_event_reasons=0x40 | 0x8)), HALF),
    "power brake": (gpu(health(clocks_event_reasons=0x80)), HALF),
    "power cap": (gpu(health(clocks_event_reasons=0x4)), SERVES),
}


def fleet(one: GpuSample | None = None, handles_dropped: bool = False) -> list[NodeSample]:
    """Four equal nodes of two GPUs; ``one`` is a GPU of the second."""
    samples = [with_gpus(item, gpu(uuid="GPU-0"), gpu(uuid="GPU-1")) for item in NODES]
    gpus = (gpu(uuid="GPU-7"), one or gpu(uuid="GPU-8"))
    samples[ILL] = with_gpus(NODES[ILL], *gpus, handles_dropped=handles_dropped)
    return samples


def outcome(bench: Bench) -> tuple[NodeState, Reason, float]:
    """State and reason of the ill node, and its share of the others' as both policies see it."""
    latest = bench.pipeline.latest
    assert latest is not None
    standing = latest.decision.state.standings[ILL]
    weight, capacity = latest.decision.weight, latest.capacity
    others = [index for index in range(len(NODES)) if index != ILL]
    assert weight[others].tolist() == capacity[others].tolist() == [1.0] * 3
    assert weight[ILL] == pytest.approx(capacity[ILL])
    return standing.state, standing.reason, float(capacity[ILL])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_acts_in_the_first_tick_after_its_sample_and_no_longer_than_it_lasts(
    fault: str,
) -> None:
    one, (state, reason, share) = FAULTS[fault]
    bench = serving(*fleet())
    assert outcome(bench) == SERVES
    now_s = READY_S + 0.2
    bench.report(now_s, *fleet(one))
    bench.tick(now_s)
    found = outcome(bench)
    assert found == (state, reason, pytest.approx(share))
    bench.run(now_s + HOLD_S + 0.2, *fleet())
    after = outcome(bench)
    if found == OUT:
        assert after[:2] == (NodeState.SUSPECT, Reason.TRIAL)
    elif found == DRAINS:
        assert after[:2] == (NodeState.WARMING, Reason.HEALED)
    else:
        assert after == SERVES


def test_ejected_hardware_that_heals_has_its_whole_share_in_the_end() -> None:
    bench = serving(*fleet())
    bench.run(1.0, *fleet(gpu(xids(48))))
    bench.run(1.0 + HOLD_S + 45.0, *fleet())
    assert outcome(bench) == SERVES


def test_lost_cuda_handles_drain_their_node() -> None:
    bench = serving(*fleet())
    bench.run(READY_S + 0.2, *fleet(handles_dropped=True))
    assert outcome(bench) == DRAINS


def test_a_lowered_share_makes_requests_dearer_and_the_node_fuller() -> None:
    bench = serving(*fleet(gpu(health(pcie_width=8))))
    latest = bench.pipeline.latest
    assert latest is not None
    seconds, entropy = latest.costs.token_s, latest.decision.entropy
    assert seconds[ILL] == pytest.approx(2.0 * seconds[0])
    assert latest.costs.request_s[ILL] == pytest.approx(2.0 * latest.costs.request_s[0])
    # e + (e + m + c)(1/f - 1) with e = m.
    assert entropy[ILL] == pytest.approx(3.0 * entropy[0] + 0.01)


def test_the_table_that_envoys_get_has_the_state_and_no_weight() -> None:
    bench = serving(*fleet())
    bench.run(READY_S + 0.2, *fleet(gpu(xids(79))))
    assert bench.states()[ILL] is NodeState.EJECTED
    assert list(bench.table().weight) == [1.0, 0.0, 1.0, 1.0]
    assert np.isinf(bench.table().entropy[ILL])


def test_the_same_fault_everywhere_leaves_half_of_the_fleet() -> None:
    bench = serving(*fleet())
    everywhere = [with_gpus(item, gpu(xids(119))) for item in NODES]
    bench.run(60.0, *everywhere)
    assert bench.states() == [NodeState.EJECTED] * 2 + [NodeState.SUSPECT] * 2
    assert list(bench.table().weight) == [0.0, 0.0, 1.0, 1.0]


def test_findings_are_shown_by_node_and_counted_by_row() -> None:
    bench = serving(*fleet())
    one = gpu(health(pcie_width=8, row_remap_pending=1), uuid="GPU-8", links=0.5)
    bench.run(READY_S + 2.2, *fleet(one))
    latest = bench.pipeline.latest
    assert latest is not None
    rows = {row["name"]: row for row in node_rows(latest, bench.pipeline.manual, bench.observer)}
    assert rows["a"]["health_findings"] == []
    assert rows["a"]["health"] == 1.0
    assert rows["b"]["health"] == 0.5
    findings = rows["b"]["health_findings"]
    assert isinstance(findings, list)
    assert findings[0] == {
        "row": "row_remap_pending",
        "action": "drain",
        "gpu": "GPU-8",
        "value": 1.0,
        "age_s": pytest.approx(2.0),
        "since_unix_s": pytest.approx(latest.at_unix_s - 2.0),
    }
    assert {(item["row"], item["value"]) for item in findings[1:]} == {
        ("pcie_width", 0.5),
        ("nvlinks_down", 0.5),
    }
    counted = fleet_gauges(
        bench.pipeline,
        bench.registry,
        bench.observer,
        NoSubscribers(),  # type: ignore[arg-type]
        "equal_cost",
    )
    assert {row for row, count in counted.findings.items() if count} == {
        "row_remap_pending",
        "pcie_width",
        "nvlinks_down",
    }
    assert set(counted.findings) == {row.name for row in ROWS}
    assert counted.columns["health"] == [1.0, 0.5, 1.0, 1.0]


class NoSubscribers:
    def clients(self) -> list[object]:
        return []

    def refusals(self) -> dict[str, int]:
        return {}


def test_what_the_table_cannot_see_is_named() -> None:
    bench = serving(*fleet(gpu(None)))
    latest = bench.pipeline.latest
    assert latest is not None
    rows = {row["name"]: row for row in node_rows(latest, bench.pipeline.manual, bench.observer)}
    assert rows["a"]["health_unknown"] == []
    assert "ecc_uncorrected" in rows["b"]["health_unknown"]  # type: ignore[operator]


def test_a_finding_is_logged_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = serving(*fleet())
    with caplog.at_level(logging.INFO, "isocost.pipeline"):
        bench.run(2.0, *fleet(gpu(xids(74), uuid="GPU-8")))
        bench.run(2.0 + HOLD_S + 0.4, *fleet())
    assert caplog.messages == [
        "node b, GPU-8: xid_watched 74 (lower)",
        "node b, GPU-8: no longer xid_watched 74 (lower)",
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_findings_of_the_whole_fleet_are_a_few_lines_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = [node(f"n{number}", address=f"192.0.2.{number}:80") for number in range(100)]
    bench = serving(*(with_gpus(item, gpu()) for item in nodes))
    caplog.clear()
    with caplog.at_level(logging.INFO, "isocost.pipeline"):
        bench.run(1.0, *(with_gpus(item, gpu(links=0.5)) for item in nodes))
    assert len(caplog.messages) == 21
    assert caplog.messages[-1] == "80 more findings begin at once"
