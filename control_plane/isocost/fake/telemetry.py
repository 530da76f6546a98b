"""What a fake node's GPUs and network tell: consistent with its load, and open to orders."""

from __future__ import annotations

import json
import math
import random
import uuid
from collections import deque
from collections.abc import Callable

from isocost.fake.cards import KV_BYTES_PER_TOKEN, Hardware
from isocost.fake.engine import Engine
from isocost.fake.strict import Json, checked_number, known_keys, refuse

#: NVML's utilisation is a share of about the last second; the network's rate is a mean of 5 s.
UTILISATION_WINDOW_S = 1.0
NET_WINDOW_S = 5.0
#: A serving GPU that holds its model moves little over PCIe; DCGM captures show 0.5 GB/s of a busy
#: card, far below the bus.
BUSY_PCIE_BYTES_PER_S = 0.5e9

#: Signals that can be ordered, with their allowed range.
_GPU_SIGNALS = {
    "vram_total_bytes": (1.0, math.inf),
    "vram_free_bytes": (0.0, math.inf),
    "gpu_utilisation": (0.0, 1.0),
    "pcie_bytes_per_s": (0.0, math.inf),
    "nvlink_active_fraction": (0.0, 1.0),
}
_NODE_SIGNALS = {"net_bytes_per_s": (0.0, math.inf)}
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

#: A number, or the state of a signal without one.
Reading = float | str


class Window:
    """The growth of a running total over the last seconds, as seen by those who ask."""

    def __init__(self, seconds: float, now_s: float) -> None:
        self._seconds = seconds
        self._points: deque[tuple[float, float]] = deque([(now_s, 0.0)])

    def rate(self, now_s: float, total: float) -> float:
        """Per second; the first point kept is the last one older than the window."""
        points = self._points
        if now_s > points[-1][0]:
            points.append((now_s, total))
        while len(points) > 2 and points[1][0] <= now_s - self._seconds:
            points.popleft()
        elapsed_s = points[-1][0] - points[0][0]
        return (points[-1][1] - points[0][1]) / elapsed_s if elapsed_s > 0 else 0.0


class FakeTelemetry:
    """The numbers of one node, orders applied. ``net_bytes`` is counted by the server."""

    def __init__(
        self,
        hardware: Hardware,
        engine: Engine,
        name: str,
        seed: int,
        clock: Callable[[], float],
    ) -> None:
        choose = random.Random(f"{seed}/{name}")
        self._uuids = [
            f"GPU-{uuid.UUID(int=choose.getrandbits(128), version=4)}"
            for _ in range(hardware.count)
        ]
        self._hardware = hardware
        self._engine = engine
        self._clock = clock
        self._busy = Window(UTILISATION_WINDOW_S, clock())
        self._net = Window(NET_WINDOW_S, clock())
        self._orders: dict[str, Reading] = {}
        self.net_bytes = 0

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

    def page(self) -> bytes:
        now_s = self._clock()
        busy = min(max(self._busy.rate(now_s, self._engine.busy_s(now_s)), 0.0), 1.0)
        card = self._hardware.card
        gpu: dict[str, Reading] = {
            "vram_total_bytes": card.vram_total_bytes,
            "vram_free_bytes": self._wanted_memory()[0],
            "gpu_utilisation": round(busy, 4),
            "pcie_bytes_per_s": round(busy * BUSY_PCIE_BYTES_PER_S),
            "nvlink_active_fraction": 1.0,
        }
        gpu.update({key: self._orders[key] for key in _GPU_SIGNALS if key in self._orders})
        net = self._orders.get(
            "net_bytes_per_s", round(self._net.rate(now_s, float(self.net_bytes)))
        )
        gpus = [{"uuid": uuid, **gpu} for uuid in self._uuids]
        return json.dumps({"gpus": gpus, "net_bytes_per_s": net, "orders": self._orders}).encode()

    def engine_reading(self, key: str) -> float | None:
        """A signal of the metrics page; None = the page must not have it."""
        ordered = self._orders.get(key)
        if ordered is not None:
            return ordered if isinstance(ordered, float) else None
        if key == "kv_usage":
            return self._wanted_memory()[1]
        return float(self._engine.running if key == "running" else self._engine.waiting)

    def _wanted_memory(self) -> tuple[float, float]:
        """Free bytes of one card and KV usage that make free_vram_fraction true if it is ordered.

        free_vram = free + pool * (1 - usage). The KV pool gives first; only what it cannot give
        is taken from, or added to, the free bytes.
        """
        count = self._hardware.count
        free = float(self._hardware.vram_free_bytes * count)
        usage = self._engine.kv_used_tokens / self._engine.kv_pool_tokens
        fraction = self._orders.get("free_vram_fraction")
        if not isinstance(fraction, float):
            return free / count, usage
        total = self._orders.get("vram_total_bytes")
        if not isinstance(total, float):
            total = float(self._hardware.card.vram_total_bytes)
        wanted = fraction * total * count
        pool = float(self._engine.kv_pool_tokens * KV_BYTES_PER_TOKEN)
        in_pool = min(max(wanted - free, 0.0), pool)
        return (wanted - in_pool) / count, 1.0 - in_pool / pool


def _checked(key: str, value: object) -> Reading:
    states = ["absent"] if key in _ENGINE_SIGNALS else ["absent", "unsupported"]
    if key == "free_vram_fraction":
        states = []
    if isinstance(value, str):
        if value not in states:
            refuse(key, value, " or ".join(["must be a number", *states]))
        return value
    return checked_number(key, value, *_RANGES[key])
