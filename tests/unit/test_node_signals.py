"""What is shown of a node's signals: unknown, stale and unsupported are told apart."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    HealthSignals,
    NodeSample,
    Signal,
    SignalState,
    Xid,
    measured,
)
from isocost.node_signals import node_signals
from tests.unit.fleet_builder import node

GPU = GpuSample(
    "GPU-a",
    vram_total_bytes=measured(0.0, age_s=0.25),
    vram_free_bytes=Signal(SignalState.STALE, 5.0, 2.0),
    gpu_utilisation=UNSUPPORTED,
    pcie_bytes_per_s=ABSENT,
    lost=True,
    health=HealthSignals(
        ecc_uncorrected=measured(1.0),
        pcie_width=Signal(SignalState.STALE, 8.0, 3.0),
        row_remap_pending=UNSUPPORTED,
        xids=(Xid(48, 2, last_s=90.0),),
    ),
    health_age_s=0.5,
)
SAMPLE = NodeSample(
    node(),
    engine_up=True,
    gpus=(GPU,),
    engine=EngineSample(running=measured(3.0)),
    net_bytes_per_s=UNSUPPORTED,
    cuda_handles=measured(24.0),
    cuda_handles_dropped=True,
    taken_s=100.0,
)


def shown(age_s: float, sample: NodeSample = SAMPLE) -> Any:
    return json.loads(json.dumps(node_signals(sample, age_s)))


def test_each_signal_has_its_state_and_only_known_ones_a_value() -> None:
    told = shown(0.25)
    gpu = told["gpus"][0]
    assert gpu["vram_total_bytes"] == {"state": "measured", "value": 0.0, "age_s": 0.5}
    assert gpu["vram_free_bytes"] == {"state": "stale", "value": 5.0, "age_s": 2.25}
    assert gpu["gpu_utilisation"] == {"state": "unsupported"}
    assert gpu["pcie_bytes_per_s"] == {"state": "absent"}
    assert gpu["lost"] is True
    assert told["engine"]["running"] == {"state": "measured", "value": 3.0, "age_s": 0.25}
    assert told["engine"]["waiting"] == {"state": "absent"}
    assert told["net_bytes_per_s"] == {"state": "unsupported"}
    assert told["cuda_handles"]["value"] == 24.0 and told["cuda_handles_dropped"] is True


def test_the_health_of_a_gpu_is_as_old_as_its_reading() -> None:
    health = shown(0.25)["gpus"][0]["health"]
    assert health["age_s"] == 0.75
    assert health["ecc_uncorrected"] == {"state": "measured", "value": 1.0, "age_s": 0.75}
    assert health["pcie_width"] == {"state": "stale", "value": 8.0, "age_s": 3.75}
    assert health["row_remap_pending"] == {"state": "unsupported"}
    assert health["xids"] == [{"xid": 48, "count": 2, "age_s": 10.25}]


def test_health_that_was_not_read_is_not_shown_as_good() -> None:
    unread = dataclasses.replace(SAMPLE, gpus=(GpuSample("GPU-a"),))
    assert shown(0.0, unread)["gpus"][0]["health"] is None


@pytest.mark.parametrize(("age_s", "state"), [(1.0, "measured"), (1.01, "stale")])
def test_a_sample_that_no_other_followed_is_stale(age_s: float, state: str) -> None:
    told = shown(age_s)
    assert told["engine"]["running"]["state"] == state
    assert told["gpus"][0]["health"]["ecc_uncorrected"]["state"] == state
    assert told["gpus"][0]["gpu_utilisation"]["state"] == "unsupported"
