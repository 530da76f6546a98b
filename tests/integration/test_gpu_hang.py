"""A GPU call that hangs for half a minute costs an agent only what that call tells."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import yaml

from isocost.model import NodeSample, SignalState
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.telemetry_stand_in import Arrival, telemetry_stand_in
from tests.integration.harness.wait import wait_until
from tests.unit.sample_blocks import samples_of
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library
from tests.unit.telemetry.page_server import page_server

pytestmark = pytest.mark.side_by_side

HANGS_S = 30.0
#: Rounds of the slow loop are this old before they are stale.
STALE_AFTER_S = 2.0
MOST_APART_S = 1.0
MEASURED, STALE = SignalState.MEASURED, SignalState.STALE
GPUS = {"gpus": "a,b", "a.nvlinks": 2, "b.nvlinks": 2, "a.pcie_ms": 1, "b.pcie_ms": 1}


def fast(sample: NodeSample) -> set[SignalState]:
    """What the hang does not concern."""
    gpus = [(gpu.vram_free_bytes.state, gpu.gpu_utilisation.state) for gpu in sample.gpus]
    return {sample.engine.running.state, *itertools.chain.from_iterable(gpus)}


def slow(sample: NodeSample) -> set[SignalState]:
    return {gpu.nvlink_active_fraction.state for gpu in sample.gpus}


def samples(arrivals: Iterable[Arrival]) -> list[NodeSample]:
    return [samples_of(arrival.report)[0] for arrival in arrivals if arrival.report.block.entries]


async def test_the_other_signals_flow_on_and_it_is_over_when_the_driver_lets_go(
    start_isocost: Callable[..., Process], tmp_path: Path
) -> None:
    build_library()
    gpus = FakeGpus(tmp_path, **GPUS)
    port = free_port()
    async with page_server() as page, telemetry_stand_in(port) as arrivals:
        node = page.settings.model_dump(mode="json", exclude_defaults=True)
        node |= {"dcgm_url": None, "gpus": ["GPU-a", "GPU-b"], "gpu_count": 2}
        config = {"name": "a1", "control_plane": f"127.0.0.1:{port}", "http": None, "nodes": [node]}
        file = tmp_path / "agent.yaml"
        file.write_text(yaml.safe_dump(config))
        agent = start_isocost("agent", "--config", str(file), environment=gpus.environment)

        def well() -> bool:
            last = samples(arrivals[-1:])
            return bool(last) and fast(last[0]) == slow(last[0]) == {MEASURED}

        await wait_until(well, "all is measured")
        gpus.set({"b.temperature": "hang"})
        began_s = time.monotonic()
        await wait_until(lambda: time.monotonic() > began_s + HANGS_S, "it hangs", HANGS_S + 5.0)
        while_it_hung = [arrival for arrival in arrivals if arrival.at_s > began_s]
        gpus.unset("b.temperature")
        await wait_until(well, "all is measured again", 60.0)
    agent.require_running()

    assert set().union(*map(fast, samples(while_it_hung))) == {MEASURED}
    settled = [arrival for arrival in while_it_hung if arrival.at_s > began_s + STALE_AFTER_S]
    links = [[gpu.nvlink_active_fraction for gpu in sample.gpus] for sample in samples(settled)]
    assert {hangs.state for _, hangs in links} == {STALE}
    ages_s = [hangs.age_s for _, hangs in links]
    assert ages_s[-1] > HANGS_S - 2.0 and ages_s == sorted(ages_s)
    # The other GPU is read without the one that hangs, but for the tries to read that again.
    assert sum(other.state is MEASURED for other, _ in links) > len(links) / 2
    times_s = [arrival.at_s for arrival in while_it_hung]
    assert max(later - before for before, later in itertools.pairwise(times_s)) < MOST_APART_S
    # The reader that hung was ended and started again, and only that one.
    messages = agent.messages()
    assert "the condition reader hangs" in messages and "the load reader" not in messages
