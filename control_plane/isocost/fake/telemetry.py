"""What a fake node's GPUs and network tell: consistent with its load, and open to orders."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.models import BYTES_PER_VALUE
from isocost.fake.settings import FakeNodeSettings
from isocost.fake.shared_cards import SharedCards
from isocost.fake.strict import Json, checked_number, known_keys, refuse
from isocost.fake.traffic import Traffic
from isocost.fake.window import Window

#: NVML's utilisation is a share of about the last second.
GPU_WINDOW_S = 1.0
#: Between its kernels a GPU waits for the engine's process: a vLLM that always has work shows this
#: utilisation, and no more when requests queue. The mean of the 12 runs of BurstGPT replayed
#: against vLLM (github.com/liao4s/BurstGPT_test, MIT; tests/data/burstgpt-vllm-replay), which are
#: between 0.33 and 0.40; the two with the deepest queues have the lowest.
BUSY_UTILISATION = 0.37
#: A serving GPU that holds its model moves little over PCIe; DCGM captures show 0.5 GB/s of a busy
#: card, far below the bus.
BUSY_PCIE_BYTES_PER_S = 0.5e9

#: Signals that can be ordered, with their allowed range.
_GPU_SIGNALS = {
    "vram_total_bytes": (1.0, math.inf),
    "vram_free_bytes": (0.0, math.inf),
    "gpu_utilisation": (0.0, 1.0),
    # NVML tells KB/s, and mW, in 32 bits.
    "pcie_bytes_per_s": (0.0, 4e12),
    "nvlink_active_fraction": (0.0, 1.0),
    "nvlink_bytes_per_s": (0.0, math.inf),
    "power_w": (0.0, 4e6),
}
_NODE_SIGNALS = {"net_bytes_per_s": (0.0, math.inf), "kv_cache_age_ms": (0.0, math.inf)}
_ENGINE_SIGNALS = {
    "kv_usage": (0.0, 1.0),
    "running": (0.0, math.inf),
    "waiting": (0.0, math.inf),
}
_RANGES = {
    **_GPU_SIGNALS,
    **_NODE_SIGNALS,
    **_ENGINE_SIGNALS,
    "free_vram_fraction": (0.0, 1.0),
}

#: A number, the state of a signal without one, or nothing to tell of.
Reading = float | str | None


class FakeTelemetry:
    """The numbers of one node, orders applied.

    ``clock`` is the engine's, ``wall`` the node's idea of the unix time, which can be wrong.
    """

    def __init__(
        self,
        settings: FakeNodeSettings,
        cards: SharedCards,
        traffic: Traffic,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._uuids = settings.gpu_uuids
        self._traffic = traffic
        self._hardware = settings.hardware
        self._cards = cards
        self._clock = clock
        self._wall = wall
        self._busy = Window(GPU_WINDOW_S, clock())
        self._nvlink = Window(GPU_WINDOW_S, clock())
        self._orders: dict[str, float | str] = {}

    def order(self, data: Json) -> None:
        """Fix signals at a value or in a state ("absent", "unsupported"); null lets one go."""
        known_keys(data, _RANGES)
        orders = dict(self._orders)
        for key, value in data.items():
            if value is None:
                orders.pop(key, None)
            else:
                orders[key] = _checked(key, value)
        self._orders = orders

    def gpu(self) -> dict[str, Reading]:
        """The signals of each card: tensor-parallel ones do the same."""
        gpu = self._gpu(self._clock())
        gpu.update({key: self._orders[key] for key in _GPU_SIGNALS if key in self._orders})
        return gpu

    def ordered(self, key: str) -> float | str | None:
        """What a signal was ordered to be; None = it is as it is."""
        return self._orders.get(key)

    def page(self) -> bytes:
        now_s = self._clock()
        orders = self._orders
        gpu = self.gpu()
        node: dict[str, Reading] = {
            "net_bytes_per_s": round(self._traffic.bytes_per_s(now_s)),
            "kv_cache_age_ms": self._kv_cache_age_ms(now_s),
        }
        node.update({key: orders[key] for key in _NODE_SIGNALS if key in orders})
        page = {
            "gpus": [{"uuid": uuid, **gpu} for uuid in self._uuids],
            **node,
            "wall_unix_ms": round(self._wall() * 1e3),
            "orders": orders,
        }
        return json.dumps(page).encode()

    def _gpu(self, now_s: float) -> dict[str, Reading]:
        hardware = self._hardware
        card = hardware.card
        busy = min(max(self._busy.rate(now_s, self._cards.busy_s(now_s)), 0.0), 1.0)
        nvlink_bytes_per_s = self._nvlink.rate(now_s, self._nvlink_bytes())
        return {
            "vram_total_bytes": card.vram_total_bytes,
            "vram_free_bytes": self._wanted_memory()[0],
            "gpu_utilisation": round(busy * BUSY_UTILISATION, 4),
            "pcie_bytes_per_s": round(busy * BUSY_PCIE_BYTES_PER_S),
            "nvlink_active_fraction": 1.0,
            "nvlink_bytes_per_s": round(nvlink_bytes_per_s),
            "power_w": round(card.loaded_w + busy * (card.serving_w - card.loaded_w), 1),
        }

    def _kv_cache_age_ms(self, now_s: float) -> float | None:
        """By a clock that is wrong since their admission, the sequences are older or younger."""
        residence_s = self._cards.mean_residence_s(now_s)
        if residence_s is None:
            return None
        return round((residence_s + self._wall() - time.time()) * 1e3, 3)

    def engine_reading(self, engine: Engine, key: str) -> float | None:
        """A signal of an engine on the metrics page; None = the page must not have it."""
        ordered = self._orders.get(key)
        if ordered is not None:
            return ordered if isinstance(ordered, float) else None
        if key == "kv_usage":
            ordered_usage = self._wanted_memory()[1]
            return engine.kv_usage if ordered_usage is None else ordered_usage
        return float(engine.running if key == "running" else engine.waiting)

    def _nvlink_bytes(self) -> float:
        """What a card has sent so far."""
        return math.fsum(
            engine.computed_tokens_total * _nvlink_bytes_per_token(hardware)
            for engine, hardware in zip(self._cards.engines, self._hardware.engines, strict=True)
        )

    def _wanted_memory(self) -> tuple[float, float | None]:
        """Free bytes of one card, and the KV usage of every engine that makes free_vram_fraction
        true if it is ordered.

        free_vram = free + pool * (1 - usage). The KV pool gives first; only what it cannot give
        is taken from, or added to, the free bytes.
        """
        count = self._hardware.count
        free = float(self._hardware.vram_free_bytes * count)
        fraction = self._orders.get("free_vram_fraction")
        if not isinstance(fraction, float):
            return free / count, None
        total = self._orders.get("vram_total_bytes")
        if not isinstance(total, float):
            total = float(self._hardware.card.vram_total_bytes)
        wanted = fraction * total * count
        pool = float(sum(hardware.kv_pool_bytes for hardware in self._hardware.engines))
        in_pool = min(max(wanted - free, 0.0), pool)
        return (wanted - in_pool) / count, 1.0 - in_pool / pool


def _nvlink_bytes_per_token(hardware: Hardware) -> float:
    """What a card sends for one token: two all-reduces of its hidden values in every layer, each
    around the ring twice less the own part.
    """
    model, count = hardware.model, hardware.count
    all_reduce = 2 * (count - 1) / count * model.hidden_size * BYTES_PER_VALUE
    return 2 * model.layers * all_reduce


def _checked(key: str, value: object) -> float | str:
    states = ["absent"] if key in _ENGINE_SIGNALS else ["absent", "unsupported"]
    if key == "free_vram_fraction":
        states = []
    if isinstance(value, str):
        if value not in states:
            refuse(key, value, " or ".join(["must be a number", *states]))
        return value
    return checked_number(key, value, *_RANGES[key])
