"""A line for each node whose numbers a guard ceases, or begins again, to believe."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from isocost.model import Node
from isocost.weight.evidence import Flags

#: At once; when it is true of the whole fleet, that is news of another kind.
_LOGGED = 20

_WORDS = {
    "clock_skew": "its clock is off by more than 100 ms: its ages are not believed",
    "frozen": "its engine's page stands still while answers come: taken as stale",
    "idle_stuck": "its engine says that it works and gets nowhere, with nothing of ours: stale",
    "anomaly": "its entropy is far below what its open requests make: halved",
    "jitter": "its first tokens come later than before, without load: a part of its share is left",
}

log = logging.getLogger(__name__)


class GuardLog:
    """Remembers what was told."""

    def __init__(self) -> None:
        self._told: dict[str, frozenset[str]] = {}
        #: Of the last time, to see that nothing is new.
        self._last: dict[str, tuple[Sequence[Node], Flags]] = {}

    def tell(self, nodes: Sequence[Node], found: Mapping[str, Flags]) -> None:
        for guard, flags in found.items():
            before = self._told.get(guard, frozenset())
            if not before and not flags.any():
                continue
            last = self._last.get(guard)
            if last is not None and nodes is last[0] and np.array_equal(flags, last[1]):
                continue
            self._last[guard] = nodes, flags.copy()
            names = frozenset(nodes[index].name for index in np.flatnonzero(flags).tolist())
            there = before & {node.name for node in nodes}
            begins = sorted(names - before)
            self._lines(begins, f"{guard}: {_WORDS[guard]}", logging.WARNING, guard)
            self._lines(sorted(there - names), f"no longer {guard}", logging.INFO, guard)
            self._told[guard] = names

    def _lines(self, names: Sequence[str], text: str, level: int, guard: str) -> None:
        for name in names[:_LOGGED]:
            log.log(level, "node %s: %s", name, text, extra={"node": name, "guard": guard})
        if len(names) > _LOGGED:
            more = len(names) - _LOGGED
            log.log(level, "%d more nodes: %s", more, text, extra={"guard": guard})
