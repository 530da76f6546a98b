"""Which of a node's models it may serve: by the kind of its cards, and by what fits them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from isocost.config import ModelPlacement
from isocost.model import Model, Node, NodeSample
from isocost.score.columns import combine

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
        self._kinds = {item.name: item.gpu_kinds for item in placements if item.gpu_kinds}
        #: By name: the node as it was announced, its memory, and the node as it may serve.
        self._found: dict[str, tuple[Node, float, Node]] = {}

    def fitted(self, nodes: Sequence[Node], samples: Sequence[NodeSample | None]) -> Fitted:
        """The nodes as they go into the roster."""
        found: dict[str, tuple[Node, float, Node]] = {}
        for node, sample in zip(nodes, samples, strict=True):
            held = self._found.get(node.name)
            if held is not None and held[0] is not node and held[0] != node:
                held = None
            vram_bytes = (held[1] if held else 0.0) or _vram_total_bytes(sample)
            if held is None or vram_bytes != held[1]:
                held = node, vram_bytes, _fitted(node, vram_bytes, self._kinds)
            found[node.name] = held
        self._found = found
        barred = frozenset(
            name for name, (before, _, after) in found.items() if before.models and not after.models
        )
        return Fitted(tuple(held[2] for held in found.values()), barred)


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
        log.warning("node %s does not serve model %s: %s", node.name, model.name, reason)
    return node if len(models) == len(node.models) else replace(node, models=tuple(models))


def _vram_total_bytes(sample: NodeSample | None) -> float:
    """Over all GPUs of the node; 0 = not known."""
    if sample is None or not sample.gpus:
        return 0.0
    total = combine((gpu.vram_total_bytes for gpu in sample.gpus), "sum")
    return total.value if total.known else 0.0
