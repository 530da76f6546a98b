"""The fake node's telemetry: true to its load, and to what it was ordered to tell."""

from __future__ import annotations

import json
import time

import pytest

from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware, gpu_uuids
from isocost.fake.models import model_named
from isocost.fake.shared_cards import SharedCards
from isocost.fake.strict import BadRequestError
from isocost.fake.telemetry import BUSY_UTILISATION, FakeTelemetry
from isocost.fake.traffic import Traffic
from isocost.fake.window import Window
from tests.unit.fake.engines import submit
from tests.unit.fake.node_client import settings

MODEL = model_named("llama-3.1-8b")


class Bench:
    """A node's engine and telemetry on a clock that the test turns."""

    def __init__(self, gpu_count: int = 1, kind: str = "H100") -> None:
        self.now_s = 0.0
        self.skew_s = 0.0
        self.hardware = Hardware(kind, gpu_count, MODEL)
        self.engine = Engine(self.hardware.speed, self.hardware.kv_blocks, 128)
        self.traffic = Traffic(0.0)
        self.telemetry = FakeTelemetry(
            settings(hardware=self.hardware),
            SharedCards([self.engine]),
            self.traffic,
            lambda: self.now_s,
            self._wall,
        )

    def _wall(self) -> float:
        return time.time() + self.skew_s

    def at(self, now_s: float) -> dict[str, object]:
        self.now_s = now_s
        self.engine.advance(now_s)
        page = json.loads(self.telemetry.page())
        assert isinstance(page, dict)
        return page

    def gpu(self) -> dict[str, object]:
        gpus = self.at(self.now_s)["gpus"]
        assert isinstance(gpus, list)
        return dict(gpus[0])

    def free_share(self) -> float:
        """free_vram over the total, as the control plane computes it."""
        page = self.at(self.now_s)
        gpus = page["gpus"]
        assert isinstance(gpus, list)
        usage = self.telemetry.engine_reading(self.engine, "kv_usage")
        assert usage is not None
        pool = self.hardware.kv_pool_tokens * MODEL.kv_bytes_per_token
        free = sum(gpu["vram_free_bytes"] for gpu in gpus) + pool * (1 - usage)
        return float(free / sum(gpu["vram_total_bytes"] for gpu in gpus))


def test_free_memory_is_flat_and_the_pool_moves_with_the_load() -> None:
    bench = Bench()
    idle = bench.gpu()["vram_free_bytes"], bench.telemetry.engine_reading(bench.engine, "kv_usage")
    submit(bench.engine, 0.0, 100_000, 1000)
    bench.at(10.0)
    busy = bench.gpu()["vram_free_bytes"], bench.telemetry.engine_reading(bench.engine, "kv_usage")
    assert idle[0] == busy[0]
    assert idle[1] == 0.0 and busy[1] is not None and busy[1] > 0.2


def test_a_busy_engine_shows_as_utilisation_and_power_and_an_idle_one_does_not() -> None:
    bench = Bench()
    idle = bench.gpu()
    assert (idle["gpu_utilisation"], idle["pcie_bytes_per_s"], idle["power_w"]) == (0.0, 0, 120.0)
    submit(bench.engine, 0.0, 100, 500)
    for tick in range(11):
        bench.at(tick * 0.2)
    busy = bench.gpu()
    assert busy["gpu_utilisation"] == pytest.approx(BUSY_UTILISATION)
    assert busy["pcie_bytes_per_s"] == 0.5e9
    assert busy["power_w"] == pytest.approx(207, abs=1)
    for tick in range(11, 40):
        bench.at(tick * 0.2)
    assert bench.gpu() == idle


def test_power_is_the_cards_and_stays_within_its_limit() -> None:
    bench = Bench(kind="A100")
    card = bench.hardware.card
    assert bench.gpu()["power_w"] == card.loaded_w
    submit(bench.engine, 0.0, 50_000, 500)
    bench.at(1.0)
    assert bench.gpu()["power_w"] == pytest.approx(card.serving_w, abs=5)
    assert card.serving_w <= card.limit_w


@pytest.mark.parametrize(("gpu_count", "share"), [(1, 0.0), (2, 1.0), (4, 1.5)])
def test_nvlink_carries_two_all_reduces_a_layer_for_every_computed_token(
    gpu_count: int, share: float
) -> None:
    bench = Bench(gpu_count)
    submit(bench.engine, 0.0, 8000, 1)
    bench.at(1.0)
    # Around a ring every card sends 2 (n - 1) / n of the 4,096 hidden values of 2 bytes.
    expected = 8000 * 2 * 32 * 4096 * 2 * share
    assert bench.gpu()["nvlink_bytes_per_s"] == pytest.approx(expected)
    bench.at(2.0)
    bench.at(3.0)
    assert bench.gpu()["nvlink_bytes_per_s"] == 0


def test_the_age_of_the_cache_is_that_of_the_running_sequences() -> None:
    bench = Bench()
    assert bench.at(0.0)["kv_cache_age_ms"] is None
    submit(bench.engine, 0.0, 100, 500)
    assert bench.at(2.0)["kv_cache_age_ms"] == pytest.approx(2000, abs=50)
    assert bench.at(60.0)["kv_cache_age_ms"] is None


def test_a_wrong_clock_shows_in_the_time_and_in_the_age_of_the_cache() -> None:
    bench = Bench()
    submit(bench.engine, 0.0, 100, 500)
    bench.skew_s = 30.0
    page = bench.at(2.0)
    assert page["kv_cache_age_ms"] == pytest.approx(32_000, abs=1000)
    assert page["wall_unix_ms"] == pytest.approx((time.time() + 30) * 1e3, abs=5000)


def test_network_is_the_mean_of_five_seconds() -> None:
    bench = Bench()
    bench.traffic.sent_bytes = 9_000
    bench.traffic.received_bytes = 1_000
    assert bench.at(5.0)["net_bytes_per_s"] == 2000
    assert bench.at(7.5)["net_bytes_per_s"] == pytest.approx(10_000 / 7.5, abs=1)
    assert bench.at(10.0)["net_bytes_per_s"] == 0


def test_a_window_keeps_no_more_than_it_needs() -> None:
    window = Window(1.0, 0.0)
    for tick in range(1, 1000):
        assert window.rate(tick * 0.1, tick * 0.1) == pytest.approx(1.0)
    assert len(window._points) <= 13


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.1, 0.5, 0.77, 0.9, 1.0])
@pytest.mark.parametrize("gpu_count", [1, 4])
def test_an_ordered_free_share_is_what_the_formula_gives(fraction: float, gpu_count: int) -> None:
    bench = Bench(gpu_count)
    bench.telemetry.order({"free_vram_fraction": fraction})
    assert bench.free_share() == pytest.approx(fraction, abs=1e-9)
    usage = bench.telemetry.engine_reading(bench.engine, "kv_usage")
    assert usage is not None and 0.0 <= usage <= 1.0


def test_null_lets_a_signal_go() -> None:
    bench = Bench()
    before = bench.free_share()
    bench.telemetry.order({"free_vram_fraction": 0.1, "gpu_utilisation": 0.9})
    assert bench.gpu()["gpu_utilisation"] == 0.9
    bench.telemetry.order({"free_vram_fraction": None})
    assert bench.free_share() == before
    assert bench.gpu()["gpu_utilisation"] == 0.9


def test_a_signal_can_be_put_in_a_state_without_a_number() -> None:
    bench = Bench()
    bench.telemetry.order({"pcie_bytes_per_s": "unsupported", "waiting": "absent"})
    assert bench.gpu()["pcie_bytes_per_s"] == "unsupported"
    assert bench.telemetry.engine_reading(bench.engine, "waiting") is None
    assert bench.telemetry.engine_reading(bench.engine, "running") == 0.0
    bench.telemetry.order({"power_w": "absent", "nvlink_bytes_per_s": 5, "kv_cache_age_ms": 7})
    assert (bench.gpu()["power_w"], bench.gpu()["nvlink_bytes_per_s"]) == ("absent", 5.0)
    assert bench.at(0.0)["kv_cache_age_ms"] == 7.0


@pytest.mark.parametrize(
    ("order", "field", "allowed"),
    [
        ({"gpu_utilization": 1}, "gpu_utilization", "known here: free_vram_fraction"),
        ({"gpu_utilisation": 1.5}, "gpu_utilisation", "between 0 and 1"),
        ({"free_vram_fraction": -0.1}, "free_vram_fraction", "between 0 and 1"),
        ({"free_vram_fraction": "absent"}, "free_vram_fraction", "must be a number"),
        ({"kv_usage": "unsupported"}, "kv_usage", "a number or absent"),
        ({"net_bytes_per_s": True}, "net_bytes_per_s", "must be a number"),
        ({"vram_free_bytes": [1]}, "vram_free_bytes", "at least 0"),
    ],
)
def test_a_bad_order_names_the_field_and_changes_nothing(
    order: dict[str, object], field: str, allowed: str
) -> None:
    bench = Bench()
    before = bench.gpu()
    with pytest.raises(BadRequestError, match=allowed) as error:
        bench.telemetry.order({"pcie_bytes_per_s": 7, **order})
    assert error.value.field == field
    assert bench.gpu() == before
    assert bench.at(0.0)["orders"] == {}


def test_gpu_ids_differ_between_nodes_and_stay_with_the_seed() -> None:
    assert gpu_uuids("a", 1, 2) == gpu_uuids("a", 1, 2)
    assert len({*gpu_uuids("a", 1, 2), *gpu_uuids("b", 1, 2), *gpu_uuids("a", 2, 2)}) == 6
    bench = Bench(gpu_count=2)
    gpus = bench.at(0.0)["gpus"]
    assert isinstance(gpus, list)
    assert tuple(gpu["uuid"] for gpu in gpus) == gpu_uuids("n1", 0, 2)
