"""Free VRAM counts the engine's free pool; old samples are stale."""

import pytest

from isocost.model import SAMPLE_FRESH_S, Signal, SignalState
from isocost.score.telemetry import FleetTelemetry
from isocost.score.vram import free_vram_share
from tests.unit.fleet_builder import ABSENT, UNSUPPORTED, measured, node, sample, telemetry_of


def fleet(*changes: dict[str, object], age_s: float = 0.0) -> FleetTelemetry:
    nodes = [node(f"n{index}") for index in range(len(changes))]
    samples = [sample(of, **change) for of, change in zip(nodes, changes, strict=True)]  # type: ignore[arg-type]
    return telemetry_of(nodes, samples, [age_s] * len(nodes))


def test_free_vram_is_nvml_free_plus_the_unused_kv_pool() -> None:
    share = free_vram_share(fleet({"free_gb": 10.0, "kv_pool_gb": 60.0, "kv_usage": 0.5}))
    assert share.value[0] == pytest.approx((10.0 + 30.0) / 80.0)


def test_free_vram_is_unknown_without_the_engines_pool() -> None:
    share = free_vram_share(fleet({"kv_pool_gb": UNSUPPORTED}, {"kv_usage": ABSENT}, {}))
    assert share.known.tolist() == [False, False, True]


def test_free_vram_is_unknown_for_a_model_of_unknown_kv_size() -> None:
    plain = node(models=())
    telemetry = telemetry_of([plain], [sample(plain)])
    assert not free_vram_share(telemetry).known[0]


def test_a_total_of_zero_gives_no_share_rather_than_a_division_by_zero() -> None:
    share = free_vram_share(fleet({"total_gb": 0.0}, {}))
    assert share.known.tolist() == [False, True]


def test_kv_usage_over_one_is_clamped() -> None:
    share = free_vram_share(fleet({"free_gb": 8.0, "kv_usage": 1.2}))
    assert share.value[0] == pytest.approx(0.1)


def test_an_old_sample_makes_its_signals_stale_with_the_summed_age() -> None:
    telemetry = fleet(
        {"kv_usage": Signal(SignalState.STALE, 0.4, 1.0), "waiting": measured(2.0)},
        age_s=SAMPLE_FRESH_S + 1.0,
    )
    assert telemetry.kv_usage.age_s[0] == pytest.approx(SAMPLE_FRESH_S + 2.0)
    assert telemetry.waiting.state[0] == SignalState.STALE


def test_a_node_without_a_sample_has_every_signal_absent() -> None:
    telemetry = telemetry_of([node()], [None])
    assert not telemetry.kv_usage.known[0]
    assert not telemetry.vram_total_bytes.known[0]
