"""The dynamic weight W of document B, safe at any size of its factors."""

from __future__ import annotations

import numpy as np

from isocost.score.columns import Floats

#: The smallest weight of a node none of whose factors is zero: the smallest normal float32, since
#: the table carries float32 and a weight of zero means never.
SMALLEST_WEIGHT = float(np.finfo(np.float32).tiny)


def relative_weight(
    free_share: Floats,
    pcie_utilisation: Floats,
    latency_ms: Floats,
    health: Floats,
    state_factor: Floats,
    latency_factor_per_ms: float,
) -> Floats:
    """W = free share * (1 - PCIe) * exp(-factor * latency) * health, relative to the best, [n].

    ``state_factor`` in [0,1] is the part of its share that a node's state leaves it. Computed in
    logs, so that the ratios are exactly the formula's however long the latencies are (document
    B's product underflows at 15 s). The best node has weight 1 unless all are 0; a node has 0 only
    if a factor is 0.
    """
    product = (
        np.clip(free_share, 0.0, 1.0)
        * np.clip(1.0 - pcie_utilisation, 0.0, 1.0)
        * np.clip(health, 0.0, 1.0)
        * np.clip(state_factor, 0.0, 1.0)
    )
    possible = product > 0.0
    if not possible.any():
        return np.zeros_like(product)
    logs = np.full_like(product, -np.inf)
    logs[possible] = np.log(product[possible]) - latency_factor_per_ms * latency_ms[possible]
    weight: Floats = np.exp(logs - logs[possible].max())
    weight[possible] = np.maximum(weight[possible], SMALLEST_WEIGHT)
    return weight
