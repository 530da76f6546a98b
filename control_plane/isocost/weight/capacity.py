"""What each node should take of the traffic, relative to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isocost.model import Node
from isocost.observe.speeds import Speeds
from isocost.score.columns import Floats
from isocost.weight.override import Override
from isocost.weight.requests import MeanRequest

#: A speed that differs by less than this is followed slowly: so much is chance under steady load,
#: and shares that swing with it would make load that swings.
_CHANCE = 0.35
_SLOW_S = 40.0
#: A larger difference is a change, which has to be in the shares within seconds: it is followed to
#: its end.
_QUICK_S = 0.5
_ARRIVED = 0.05


def relative_speed(speeds: Speeds, request: MeanRequest, configured: Floats) -> Floats:
    """Mean requests in a second of work, relative to the best, (0,1], [n].

    A request costs a node its prompt and what its tokens lengthen the steps of all others. Nodes
    whose pool nobody has seen work are as fast as configured (``configured`` [n], relative to a
    reference card), by the scale of those that were seen.
    """
    service_s = speeds.token_s * request.prompt_tokens + speeds.step_s * request.output_tokens
    speed = 1.0 / service_s
    known = speeds.token_learned
    if not known.any():
        speed = configured
    elif not known.all():
        scale = float(np.median(speed[known] / configured[known]))
        speed = np.where(known, speed, configured * scale)
    result: Floats = speed / speed.max(initial=1e-300)
    return result


class CapacityDamper:
    """Follows the nodes' speeds without their noise. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._ids: Sequence[int] = ()
        self._held = np.zeros(0)
        self._moving = np.zeros(0, dtype=np.bool_)
        self._at_s = 0.0

    def update(self, node_ids: Sequence[int], speed: Floats, now_s: float) -> Floats:
        """``speed`` [n] > 0 as it is followed by now, relative to the best. What is new here is
        taken as it is.
        """
        target = np.log(speed)
        if node_ids is not self._ids:
            before = dict(zip(self._ids, self._held.tolist(), strict=True))
            self._held = np.array(
                [before.get(node_id, target[place]) for place, node_id in enumerate(node_ids)],
                dtype=np.float64,
            )
            moving = {node_id for node_id, on in zip(self._ids, self._moving, strict=True) if on}
            self._moving = np.array([node_id in moving for node_id in node_ids], dtype=np.bool_)
            self._ids = node_ids
        # All are relative: what moves all of them is no change of any.
        gap = target - self._held
        gap -= np.median(gap) if gap.size else 0.0
        passed_s = max(now_s - self._at_s, 0.0)
        self._at_s = now_s
        self._moving = np.abs(gap) > np.where(self._moving, _ARRIVED, _CHANCE)
        follow_s = np.where(self._moving, _QUICK_S, _SLOW_S)
        self._held = self._held + gap * (1.0 - np.exp(-passed_s / follow_s))
        if self._held.size:
            self._held -= self._held.max()
        result: Floats = np.exp(self._held)
        return result


def capacity(
    nodes: Sequence[Node],
    speed: Floats,
    health: Floats,
    factor: Floats,
    overrides: Mapping[str, Override],
) -> Floats:
    """Relative speed * health * state factor, relative to the best, [n]. A weight by hand
    multiplies; a weight of 0 or an infinite entropy by hand is 0.
    """
    result = speed * np.clip(health, 0.0, 1.0) * factor
    if overrides:
        for index, node in enumerate(nodes):
            override = overrides.get(node.name)
            if override is None:
                continue
            if override.weight is not None:
                result[index] *= override.weight
            elif override.entropy == np.inf:
                result[index] = 0.0
    largest = float(result.max(initial=0.0))
    return result / largest if largest > 0.0 else result
