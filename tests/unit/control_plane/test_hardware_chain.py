"""From a GPU that falls ill to its node's state, through all that lies between: NVIDIA's binding on
the fake library, the agent's sample, its report as bytes, registry, states and table. In virtual
time, each part at its pace.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from isocost.config import AgentConfig, ModelSettings
from isocost.discovery.report import ReportReader
from isocost.model import NodeState
from isocost.score.health_table import HOLD_S
from isocost.telemetry.machine import Machine
from isocost.telemetry.report import encode_report
from isocost.telemetry.sampler import NodeSampler, sample_all
from isocost.telemetry.scrape import Pages
from isocost.weight.standing import Reason
from tests.unit.control_plane.test_pipeline import UNIX_MS, Bench
from tests.unit.fleet_builder import node
from tests.unit.hardware_samples import gpu, with_gpus
from tests.unit.telemetry.fake_gpus import START_S, FakeGpus, SteppedNvml, build_library
from tests.unit.telemetry.page_server import page_server

#: So soon after a GPU shows something its node's state is the one that docs/node-states.md names.
SHOWS_S = 1.0
#: The parts' paces: NVML's fast and slow rounds, samples and ticks. In coarse steps everything
#: happens in each; nothing becomes stale within one.
STEP_S, COARSE_S = 0.1, 0.7
LOAD, CONDITION, SAMPLE = 2, 5, 2
PATIENCE_S = 5.0
#: A trial without traffic, and the ramp after it.
BACK_S = 45.0

WELL = [node(name, address=f"192.0.2.{n}:80") for n, name in enumerate("xyz", start=1)]


class Outcome(NamedTuple):
    """The state, and the share that is left of a well node's."""

    state: NodeState
    reason: Reason
    share: float


SERVES, HALF = (
    Outcome(NodeState.SERVING, Reason.OK, 1.0),
    Outcome(NodeState.SERVING, Reason.OK, 0.5),
)
DRAINS = Outcome(NodeState.DRAINING, Reason.HARDWARE, 0.0)
OUT = Outcome(NodeState.EJECTED, Reason.HARDWARE, 0.0)
#: What follows at once when the finding has ended.
AFTER = {
    SERVES: (NodeState.SERVING, Reason.OK),
    HALF: (NodeState.SERVING, Reason.OK),
    DRAINS: (NodeState.WARMING, Reason.HEALED),
    OUT: (NodeState.SUSPECT, Reason.TRIAL),
}


class Fault(NamedTuple):
    """What the library tells, the row that it is, and how long after it was told last the row holds
    (and ``HOLD_S`` more).
    """

    told: dict[str, object]
    row: str
    outcome: Outcome
    lasts_s: float = 0.0


FAULTS = {
    "Xid 48": Fault({"a.xids": "48"}, "xid_fatal", OUT, 600.0),
    "Xid 63": Fault({"a.xids": "63"}, "xid_noted", SERVES, 600.0),
    "Xid 74": Fault({"a.xids": "74"}, "xid_watched", HALF, 120.0),
    "Xid 79": Fault({"a.xids": "79"}, "xid_fatal", OUT, 600.0),
    "Xid 94": Fault({"a.xids": "94"}, "xid_watched", HALF, 120.0),
    "Xid 95": Fault({"a.xids": "95"}, "xid_fatal", OUT, 600.0),
    "NVLink down": Fault(
        {"a.nvlink.17.active": 0},
        "nvlinks_down",
        SERVES._replace(share=17 / 18),
    ),
    # Errors are those of the last minute.
    "CRC storm": Fault({"a.nvlink.3.crc_flit": 9000}, "nvlink_crc", HALF, 60.0),
    "PCIe at half width": Fault({"a.pcie_width": 8}, "pcie_width", HALF),
    "ECC uncorrectable": Fault({"a.ecc_uncorrected": 1}, "ecc_uncorrected", DRAINS),
    "row remap pending": Fault({"a.rows_pending": 1}, "row_remap_pending", DRAINS),
    "thermal brake": Fault({"a.clocks_event_reasons": 0x40}, "clocks_slowed", HALF),
}


class Chain:
    """An agent of one node, three nodes that are well, and a control plane, on one clock."""

    def __init__(self, nvml: SteppedNvml, sampler: NodeSampler) -> None:
        self.nvml = nvml
        self._sampler = sampler
        self._reader = ReportReader()
        self._bench = Bench()
        self._steps = 0
        self.nvml.read_load()
        self.nvml.read_condition()

    @property
    def now_s(self) -> float:
        return self.nvml.now_s - START_S

    async def run(self, seconds: float) -> None:
        """Each part at its own pace."""
        for _ in range(round(seconds / STEP_S)):
            self._steps += 1
            self.nvml.advance(STEP_S)
            if self._steps % LOAD == 0:
                self.nvml.read_load()
            if self._steps % CONDITION == 0:
                self.nvml.read_condition()
            if self._steps % SAMPLE == 0:
                await self._report()
            else:
                self._tick()

    async def run_coarsely(self, seconds: float) -> None:
        for _ in range(int(seconds / COARSE_S)):
            self.nvml.advance(COARSE_S)
            self.nvml.read_load()
            self.nvml.read_condition()
            await self._report()
            self._tick()

    async def until(self, expected: Outcome, row: str | None, within_s: float) -> float:
        """How long it takes until the node has this outcome and this finding."""
        begun_s = self.now_s
        while (self.outcome, self.rows) != (expected, [row] if row else []):
            assert self.now_s - begun_s < within_s, (self.outcome, self.rows)
            await self.run(STEP_S)
        return self.now_s - begun_s

    @property
    def outcome(self) -> Outcome:
        latest = self._bench.pipeline.latest
        assert latest is not None
        index = [item.name for item in latest.nodes].index(self._sampler.name)
        standing = latest.decision.state.standings[index]
        share = float(latest.capacity[index] / latest.capacity.max())
        return Outcome(standing.state, standing.reason, round(share, 6))

    @property
    def rows(self) -> list[str]:
        latest = self._bench.pipeline.latest
        assert latest is not None
        found = latest.decision.state.hardware.findings.get(self._sampler.name, ())
        return [item.finding.row.name for item in found]

    async def _report(self) -> None:
        samples = await sample_all([self._sampler], PATIENCE_S)
        self._bench.sequence += 1
        wall_s = UNIX_MS / 1e3 + self.now_s
        sent = encode_report("ill", self._bench.sequence, wall_s, self.nvml.now_s, samples)
        report = self._reader.read(sent.SerializeToString(), wall_s)
        self._bench.registry.receive(report, self.now_s)
        self._bench.report(self.now_s, *(with_gpus(item, gpu()) for item in WELL))

    def _tick(self) -> None:
        self._bench.tick(self.now_s)


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    build_library()


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    return FakeGpus(tmp_path, **{"gpus": "a", "a.nvlinks": 18, "a.pcie_ms": 0})


@pytest.fixture
async def chain(gpus: FakeGpus, tmp_path: Path) -> AsyncIterator[Chain]:
    async with page_server() as page, Pages() as pages:
        settings = page.settings.model_copy(
            update={
                **{"dcgm_url": None, "clock_url": None, "gpus": ("GPU-a",)},
                # A node of another model would be the last of its own, which stays in.
                "models": (ModelSettings(name=WELL[0].models[0].name),),
            }
        )
        machine = Machine(AgentConfig(name="ill", procfs=str(tmp_path), nodes=(settings,)))
        with SteppedNvml(gpus.environment) as nvml:
            machine.nvml = nvml
            made = Chain(nvml, NodeSampler(settings, pages, machine, clock=lambda: nvml.now_s))
            await made.run(8.0)
            assert (made.outcome, made.rows) == (SERVES, [])
            yield made


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_acts_within_a_second_holds_as_long_as_documented_and_clears(
    name: str, chain: Chain, gpus: FakeGpus
) -> None:
    fault = FAULTS[name]
    expected = fault.outcome._replace(share=round(fault.outcome.share, 6))
    gpus.set(fault.told)
    assert await chain.until(expected, fault.row, SHOWS_S) <= SHOWS_S
    if name != "CRC storm":  # What has been counted stays counted.
        gpus.unset(*fault.told)
    # It holds until its end, and no longer.
    await chain.run_coarsely(fault.lasts_s + HOLD_S - 2.0)
    assert (chain.outcome, chain.rows) == (expected, [fault.row])
    await chain.run_coarsely(4.0 + SHOWS_S)
    assert chain.rows == []
    assert chain.outcome[:2] == AFTER.get(fault.outcome, AFTER[SERVES])
    await chain.run_coarsely(BACK_S)
    assert chain.outcome == SERVES
