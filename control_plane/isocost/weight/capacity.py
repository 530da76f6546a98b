"""What each node should take of the traffic, relative to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isocost.model import Node
from isocost.observe.speeds import Speeds
from isocost.score.columns import Floats
from isocost.weight.override import Override
from isocost.weight.requests import MeanRequest

#: So many requests share a step of a busy node: what an answer's token takes of the node.
_SHARING = 256.0


def relative_speed(speeds: Speeds, request: MeanRequest, configured: Floats) -> Floats:
    """Mean requests in a second of work, relative to the best, (0,1], [n].

    A request costs a node its prompt and its part of the steps in which it decodes. Nodes
    whose pool nobody has seen work are as fast as configured (``configured`` [n], relative to a
    reference card), by the scale of those that were seen.
    """
    service_s = speeds.token_s * request.prompt_tokens + speeds.output_token_s * (
        request.output_tokens / _SHARING
    )
    speed = 1.0 / service_s
    known = speeds.learned
    if not known.any():
        speed = configured
    elif not known.all():
        scale = float(np.median(speed[known] / configured[known]))
        speed = np.where(known, speed, configured * scale)
    result: Floats = speed / speed.max(initial=1e-300)
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
