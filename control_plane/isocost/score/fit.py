"""Which of a node's models it may serve: by the kind of its cards, and by what fits them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from isocost.config import ModelPlacement
from isocost.model import Model, Node
from isocost.score.fleet_samples import FleetSamples
from isocost.score.rows import vram_total_bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fitted:
    """The nodes with the models that they may serve. ``barred``: names of the nodes that have
    models and may serve none of them; they must not get anything.
    """

    nodes: tuple[Node, ...]
    barred: frozenset[str]


class ModelFit:
    """Remembers what was found of each node: rosters must not change when a signal is missing for
    a moment.
    """

    def __init__(self, placements: Sequence[ModelPlacement]) -> None:
        self._kinds = _kinds(placements)
        #: By name: the node as it was announced, its memory, and the node as it may serve.
        self._found: dict[str, tuple[Node, float, Node]] = {}
        #: The last answer and the nodes that it is of, once the memory of all is known.
        self._answer: tuple[tuple[Node, ...], Fitted] | None = None

    def configure(self, placements: Sequence[ModelPlacement]) -> None:
        """Other placements from the next answer on, with what is known of each node's memory."""
        self._kinds = _kinds(placements)
        self._answer = None
        self._found = {
            name: (node, vram_bytes, _fitted(node, vram_bytes, self._kinds))
            for name, (node, vram_bytes, _) in self._found.items()
        }

    def fitted(self, nodes: Sequence[Node], samples: FleetSamples) -> Fitted:
        """The nodes as they go into the roster; the same object while nothing changes."""
        asked = tuple(nodes)
        if self._answer is not None and self._answer[0] == asked:
            return self._answer[1]
        found: dict[str, tuple[Node, float, Node]] = {}
        for node, told_bytes in zip(asked, vram_total_bytes(samples).tolist(), strict=True):
            held = self._found.get(node.name)
            if held is not None and held[0] is not node and held[0] != node:
                held = None
            vram_bytes = (held[1] if held else 0.0) or told_bytes
            if held is None or vram_bytes != held[1]:
                held = node, vram_bytes, _fitted(node, vram_bytes, self._kinds)
            found[node.name] = held
        self._found = found
        barred = frozenset(
            name for name, (before, _, after) in found.items() if before.models and not after.models
        )
        fitted = Fitted(tuple(held[2] for held in found.values()), barred)
        known = all(held[1] for held in found.values())
        self._answer = (asked, fitted) if known else None
        return fitted


def _kinds(placements: Sequence[ModelPlacement]) -> dict[str, Sequence[str]]:
    return {item.name: item.gpu_kinds for item in placements if item.gpu_kinds}


def required_bytes(model: Model) -> float:
    """Memory of the model's weights as they are quantised: the least that it needs. 0 = not known.

    Document A adds twice a KV cache. Here that part is judged for each request, in the filter: its
    prompt and expected answer are to fit the tokens that the node's engine says its cache holds,
    where it says so. Nor is a request's memory the formula ``in * 200 + out * 1500`` (KB): a model
    tells its own ``kv_bytes_per_token``.
    """
    return model.weight_bytes * model.weight_bits / 16


def _fitted(node: Node, vram_bytes: float, kinds: Mapping[str, Sequence[str]]) -> Node:
    models = []
    for model in node.models:
        allowed, needed = kinds.get(model.name, ()), required_bytes(model)
        if allowed and node.gpu_kind not in allowed:
            reason = f"it is for {', '.join(allowed)}"
        elif vram_bytes and needed > vram_bytes:
            reason = f"it needs {needed / 1e9:.1f} GB, the node has {vram_bytes / 1e9:.1f} GB"
        else:
            models.append(model)
            continue
        log.warning(
            "node %s does not serve model %s: %s",
            *(node.name, model.name, reason),
            extra={"node": node.name, "model": model.name, "reason": reason},
        )
    return node if len(models) == len(node.models) else replace(node, models=tuple(models))
