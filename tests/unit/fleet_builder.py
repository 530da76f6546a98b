"""Small fleets for the arithmetic's tests."""

from __future__ import annotations

from collections.abc import Sequence

from isocost.config import EntropySettings
from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    Model,
    Node,
    NodeSample,
    Signal,
    measured,
)
from isocost.observe.batch import Batch
from isocost.observe.fleet import FleetObserver, Observed
from isocost.score.entropy import EntropyTerms, entropy_terms, node_capacity
from isocost.score.telemetry import FleetTelemetry, fleet_telemetry, kv_bytes_per_token
from tests.unit.sample_blocks import fleet_samples

GB = 1e9
KV_BYTES_PER_TOKEN = 131_072


def node(name: str = "n1", **changes: object) -> Node:
    values: dict[str, object] = {
        "name": name,
        "instance_id": f"{name}@1",
        "address": "192.0.2.1:8000",
        "rack": "r1",
        "host": f"h-{name}",
        "gpu_kind": "H100",
        "models": (Model("m", kv_bytes_per_token=KV_BYTES_PER_TOKEN),),
    }
    return Node(**(values | changes))  # type: ignore[arg-type]


def sample(
    of: Node,
    free_gb: float | Signal = 10.0,
    total_gb: float = 80.0,
    kv_pool_gb: float | Signal = 60.0,
    kv_usage: float | Signal = 0.5,
    pcie: float | Signal = 0.0,
    nvlink: float | Signal = 1.0,
    running: float | Signal = 1.0,
    waiting: float | Signal = 0.0,
    net: float | Signal = 0.0,
    engine_up: bool = True,
) -> NodeSample:
    """A sample of one GPU; numbers are measured, signals are taken as they are."""
    return NodeSample(
        node=of,
        engine_up=engine_up,
        gpus=(
            GpuSample(
                uuid="GPU-0",
                vram_total_bytes=measured(total_gb * GB),
                vram_free_bytes=_signal(free_gb, GB),
                gpu_utilisation=measured(0.3),
                pcie_bytes_per_s=_signal(pcie),
                nvlink_active_fraction=_signal(nvlink),
            ),
        ),
        engine=EngineSample(
            running=_signal(running),
            waiting=_signal(waiting),
            kv_usage=_signal(kv_usage),
            kv_pool_tokens=_signal(kv_pool_gb, GB / KV_BYTES_PER_TOKEN),
            prompt_tokens_total=measured(0),
            generation_tokens_total=measured(0),
        ),
        net_bytes_per_s=_signal(net),
    )


def observed_nothing(count: int) -> Observed:
    """The view of an observer that hears one idle gateway."""
    observer = FleetObserver(10.0, 5.0)
    observer.apply(Batch("edge", 1, 1, ()), 0.0)
    return observer.view(list(range(1, count + 1)), 0.0)


def telemetry_of(
    nodes: Sequence[Node],
    samples: Sequence[NodeSample | None],
    ages_s: Sequence[float] | None = None,
) -> FleetTelemetry:
    """Columns of samples that are new unless ages are given."""
    ages = [0.0] * len(nodes) if ages_s is None else ages_s
    return fleet_telemetry(kv_bytes_per_token(nodes), fleet_samples(samples), ages)


def terms_of(
    nodes: Sequence[Node],
    telemetry: FleetTelemetry,
    observed: Observed,
    settings: EntropySettings | None = None,
) -> EntropyTerms:
    """Entropies with the ages that the gateways see."""
    settings = settings or EntropySettings()
    capacity = node_capacity(nodes, settings)
    return entropy_terms(telemetry, observed.open_age_s_sum, capacity, settings)


def _signal(value: float | Signal, scale: float = 1.0) -> Signal:
    return value if isinstance(value, Signal) else measured(value * scale)


__all__ = [
    "ABSENT",
    "GB",
    "UNSUPPORTED",
    "measured",
    "node",
    "observed_nothing",
    "sample",
    "telemetry_of",
    "terms_of",
]
