"""The findings of the fleet from tick to tick: since when each holds, and what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.model import HealthSignals, Node, SignalState
from isocost.score.columns import Floats
from isocost.score.fleet_samples import FleetSamples
from isocost.score.hardware import Finding, Suspicion, gpu_findings, suspicions
from isocost.score.health_table import CUDA_HANDLES, HOLD_S, STALE_S, Action

_KNOWN = (SignalState.MEASURED, SignalState.STALE)

#: What a GPU's health shows is remembered for the objects of this many rounds of the fleet.
_ROUNDS_KEPT = 4
_LEAST_KEPT = 4096

_Key = tuple[str, str, str | None, float]
_ByNode = tuple[Floats, NDArray[np.int8], Mapping[str, tuple["Lasting", ...]]]


@dataclass(frozen=True, slots=True)
class Lasting:
    """A finding with the time at which it began, monotonic."""

    finding: Finding
    since_s: float


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


@dataclass(frozen=True, slots=True)
class _Shown:
    """What an object of health shows. ``only_under_load``: nothing while its GPU has no work."""

    health: HealthSignals | None
    suspicions: tuple[Suspicion, ...]
    only_under_load: bool


class HardwareWatch:
    """Remembers the findings, and what each object of health shows: a GPU's is the same object for
    as long as nothing changes.
    """

    def __init__(self) -> None:
        #: By identity; the health that is kept with it makes the identity last.
        self._shown: dict[int, _Shown] = {}
        self._lasting: dict[_Key, Lasting] = {}
        self._seen_s: dict[_Key, float] = {}
        #: Since when is seen what does not count yet.
        self._early_s: dict[_Key, float] = {}
        #: The last answer of _by_node and the nodes that it is of, while it is true.
        self._answer: tuple[Sequence[Node], _ByNode] | None = None

    def tick(
        self,
        nodes: Sequence[Node],
        samples: FleetSamples,
        ages_s: Sequence[float],
        now_s: float,
    ) -> FleetHardware:
        """What holds at ``now_s``; ``ages_s`` is the time since each sample arrived."""
        begun, early_s = [], {}
        for name, finding in self._findings(nodes, samples, ages_s):
            key = (name, *finding.key)
            known = self._lasting.get(key)
            since_s = known.since_s if known else self._early_s.get(key, now_s)
            if known is None and now_s - since_s < finding.row.after_s:
                early_s[key] = since_s
                continue
            self._seen_s[key] = now_s
            if known is None:
                begun.append((name, finding))
            if known is None or known.finding.value != finding.value:
                self._lasting[key] = Lasting(finding, since_s)
                self._answer = None
        self._early_s = early_s
        ended = self._end(nodes, now_s)
        if self._answer is None or self._answer[0] is not nodes:
            self._answer = nodes, _by_node(nodes, self._lasting)
        return FleetHardware(*self._answer[1], tuple(begun), ended)

    def _end(self, nodes: Sequence[Node], now_s: float) -> tuple[tuple[str, Finding], ...]:
        """Forget what was not seen for long, and what is of nodes that are gone."""
        if not self._seen_s:
            return ()
        # Nothing is known of a node that is gone while they are the nodes of the last answer.
        same = self._answer is not None and self._answer[0] is nodes
        names = frozenset() if same else frozenset(node.name for node in nodes)
        over = [
            key
            for key, seen_s in self._seen_s.items()
            if now_s - seen_s >= HOLD_S or not (same or key[0] in names)
        ]
        for key in over:
            del self._seen_s[key]
        if over:
            self._answer = None
        return tuple((key[0], self._lasting.pop(key).finding) for key in over)

    def _findings(
        self,
        nodes: Sequence[Node],
        samples: FleetSamples,
        ages_s: Sequence[float],
    ) -> Iterator[tuple[str, Finding]]:
        """Looks closely only at what is not well: most GPUs are, on each tick."""
        shown, looked_at = self._shown, 0
        for index in samples.odd:
            node, age_s = nodes[index], ages_s[index]
            if samples.handles_dropped[index] and age_s <= STALE_S:
                yield node.name, Finding(CUDA_HANDLES, None, 1.0)
            gpus, taken_s = samples.gpus(index), samples.taken_s(index)
            looked_at += len(gpus)
            for gpu in gpus:
                of_health = shown.get(id(gpu.health))
                if of_health is None:
                    of_health = shown[id(gpu.health)] = _shown(gpu.health)
                found = of_health.suspicions
                if found and of_health.only_under_load and gpu.gpu_utilisation.value == 0.0:
                    found = ()
                links = gpu.nvlink_active_fraction
                if found or gpu.lost or (links.value < 1.0 and links.state in _KNOWN):
                    for finding in gpu_findings(gpu, found, taken_s, age_s):
                        yield node.name, finding
        if len(shown) > max(_ROUNDS_KEPT * looked_at, _LEAST_KEPT):
            shown.clear()


def _shown(health: HealthSignals | None) -> _Shown:
    found = suspicions(health)
    return _Shown(health, found, all(item.row.under_load for item in found))


def _by_node(nodes: Sequence[Node], lasting: Mapping[_Key, Lasting]) -> _ByNode:
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
