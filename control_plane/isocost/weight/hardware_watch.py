"""The findings of the fleet from tick to tick: since when each holds, and what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.model import HealthSignals, Node, NodeSample, SignalState
from isocost.score.columns import Floats
from isocost.score.hardware import Finding, Suspicion, gpu_findings, suspicions
from isocost.score.health_table import CUDA_HANDLES, HOLD_S, STALE_S, Action, SignalRow

_KNOWN = (SignalState.MEASURED, SignalState.STALE)

#: What a GPU's health shows is remembered for the objects of this many rounds of the fleet.
_ROUNDS_KEPT = 4
_LEAST_KEPT = 4096

_Key = tuple[str, str, str | None, float]


@dataclass(frozen=True, slots=True)
class Lasting:
    """A finding with the time at which it began and at which it was last seen, monotonic."""

    finding: Finding
    since_s: float
    seen_s: float


@dataclass(frozen=True)
class FleetHardware:
    """The n nodes at one tick. ``factor`` [n] in (0,1] is what the worst finding leaves of each
    node's share: the GPUs of a node wait for the slowest. ``action`` [n] is the strongest one.
    ``findings`` are by node name, for the nodes that have any, the strongest first; ``begun`` and
    ``ended`` are those that are news, by node name too.
    """

    factor: Floats
    action: NDArray[np.int8]
    findings: Mapping[str, tuple[Lasting, ...]]
    begun: tuple[tuple[str, Finding], ...]
    ended: tuple[tuple[str, Finding], ...]


class HardwareWatch:
    """Remembers the findings, and what each object of health shows: a GPU's is the same object for
    as long as nothing changes.
    """

    def __init__(self) -> None:
        #: By identity; the health that is kept with it makes the identity last.
        self._shown: dict[int, tuple[HealthSignals | None, tuple[Suspicion, ...]]] = {}
        self._lasting: dict[_Key, Lasting] = {}

    def tick(
        self,
        nodes: Sequence[Node],
        samples: Sequence[NodeSample | None],
        ages_s: Sequence[float],
        now_s: float,
    ) -> FleetHardware:
        """What holds at ``now_s``; ``ages_s`` is the time since each sample arrived."""
        before = self._lasting
        after = self._held(nodes, now_s) if before else {}
        for name, finding in self._seen(nodes, samples, ages_s):
            key = (name, *finding.key)
            former = before.get(key)
            after[key] = Lasting(finding, former.since_s if former else now_s, now_s)
        self._lasting = after
        was = {key: item for key, item in before.items() if _counts(item, item.seen_s)}
        now = {key: item for key, item in after.items() if _counts(item, item.seen_s)}
        return FleetHardware(
            *_by_node(nodes, now),
            begun=tuple((key[0], item.finding) for key, item in now.items() if key not in was),
            ended=tuple((key[0], item.finding) for key, item in was.items() if key not in now),
        )

    def _held(self, nodes: Sequence[Node], now_s: float) -> dict[_Key, Lasting]:
        """What was seen lately. What does not count yet ends as soon as it is not seen."""
        names = {node.name for node in nodes}
        return {
            key: item
            for key, item in self._lasting.items()
            if key[0] in names and _counts(item, item.seen_s) and now_s - item.seen_s < HOLD_S
        }

    def _seen(
        self,
        nodes: Sequence[Node],
        samples: Sequence[NodeSample | None],
        ages_s: Sequence[float],
    ) -> Iterator[tuple[str, Finding]]:
        """Looks closely only at what is not well: most GPUs are, on each tick."""
        shown, gpus = self._shown, 0
        for node, sample, age_s in zip(nodes, samples, ages_s, strict=True):
            if sample is None:
                continue
            if sample.cuda_handles_dropped and age_s <= STALE_S:
                yield node.name, Finding(CUDA_HANDLES, None, 1.0)
            gpus += len(sample.gpus)
            for gpu in sample.gpus:
                found = shown.get(id(gpu.health))
                if found is None:
                    found = shown[id(gpu.health)] = (gpu.health, suspicions(gpu.health))
                links = gpu.nvlink_active_fraction
                if found[1] or gpu.lost or (links.value < 1.0 and links.state in _KNOWN):
                    for finding in gpu_findings(gpu, found[1], sample.taken_s, age_s):
                        yield node.name, finding
        if len(shown) > max(_ROUNDS_KEPT * gpus, _LEAST_KEPT):
            shown.clear()


def _counts(item: Lasting, at_s: float) -> bool:
    row = item.finding.row
    return not isinstance(row, SignalRow) or at_s - item.since_s >= row.after_s


def _by_node(
    nodes: Sequence[Node], lasting: Mapping[_Key, Lasting]
) -> tuple[Floats, NDArray[np.int8], Mapping[str, tuple[Lasting, ...]]]:
    factor = np.ones(len(nodes))
    action = np.full(len(nodes), Action.IGNORE, dtype=np.int8)
    if not lasting:
        return factor, action, {}
    found: dict[str, list[Lasting]] = {}
    for key, item in lasting.items():
        found.setdefault(key[0], []).append(item)
    for index, node in enumerate(nodes):
        of_node = found.get(node.name)
        if of_node is not None:
            of_node.sort(key=lambda item: (-item.finding.row.action, item.since_s))
            factor[index] = min(item.finding.factor for item in of_node)
            action[index] = of_node[0].finding.row.action
    return factor, action, {name: tuple(items) for name, items in found.items()}
