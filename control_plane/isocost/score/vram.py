"""Free VRAM of a node whose engine reserves nearly all of it at start."""

from __future__ import annotations

import numpy as np

from isocost.score.columns import Column, derived
from isocost.score.telemetry import FleetTelemetry


def free_vram_share(fleet: FleetTelemetry) -> Column:
    """Free share of the VRAM in [0,1], [n].

    free = NVML's free + KV pool * (1 - KV usage): the engine takes its pool at start, so that
    NVML's figure alone is flat under load. Unknown where the engine does not tell its pool.
    """
    usage = np.clip(fleet.kv_usage.value, 0.0, 1.0)
    free = fleet.vram_free_bytes.value + fleet.kv_pool_bytes.value * (1.0 - usage)
    total = fleet.vram_total_bytes.value
    share = np.divide(free, total, out=np.full_like(free, np.nan), where=total > 0)
    result = derived(
        np.clip(share, 0.0, 1.0),
        fleet.vram_free_bytes,
        fleet.vram_total_bytes,
        fleet.kv_pool_bytes,
        fleet.kv_usage,
    )
    return without_nan(result)


def without_nan(source: Column) -> Column:
    """A total of zero (unified memory, some drivers) gives no share: absent, not zero."""
    broken = np.isnan(source.value)
    if not broken.any():
        return source
    state = source.state.copy()
    state[broken] = 0
    return Column(np.where(broken, 0.0, source.value), state, source.age_s)
