"""How much may be put aside by judgement: a cap per model, and a least number that stays.

Facts (an engine that is down) and orders (a drain) are not limited.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.model import Node
from isocost.weight.evidence import Flags

Counts = NDArray[np.int64]


class Groups:
    """The nodes of each model; a node of several models is in several groups, and those without
    any model are one group.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        numbers: dict[str, int] = {}
        self.of_node: list[tuple[int, ...]] = []
        for node in nodes:
            names = {model.name for model in node.models} or {""}
            self.of_node.append(
                tuple(numbers.setdefault(name, len(numbers)) for name in sorted(names))
            )
        self.count = len(numbers)
        self._node = np.repeat(
            np.arange(len(nodes)), np.array([len(item) for item in self.of_node], dtype=np.intp)
        )
        self._group = np.array([group for item in self.of_node for group in item], dtype=np.intp)

    def counts(self, flags: Flags) -> Counts:
        """How many of each group have the flag [n], [groups]."""
        return np.bincount(self._group[flags[self._node]], minlength=self.count)


class Limits:
    """The room that is left in one tick. Arrays are [n]: ``out`` = put aside by judgement, ejected
    or on trial; ``judged`` = neither lost nor draining; ``held`` = at zero by hand.
    """

    def __init__(
        self, groups: Groups, out: Flags, judged: Flags, held: Flags, settings: StateSettings
    ) -> None:
        self._groups = groups
        self._out = groups.counts(out)
        self._usable = groups.counts(judged & ~out & ~held)
        self._held = held
        self._most = np.floor(groups.counts(judged) * settings.max_out_fraction).astype(np.int64)
        self._least = settings.min_eligible

    def put_out(self, index: int) -> bool:
        """Put one more node aside if there is room in all of its groups."""
        used = int(not self._held[index])
        for group in self._groups.of_node[index]:
            if self._out[group] >= self._most[group]:
                return False
            if self._usable[group] - used < self._least:
                return False
        for group in self._groups.of_node[index]:
            self._out[group] += 1
            self._usable[group] -= used
        return True

    def must_return(self, index: int) -> bool:
        """Is more aside than may be, in one of the groups of this node, which is aside?

        Happens when others are lost, drained or removed. True takes the node back.
        """
        over = any(
            self._out[group] > self._most[group] or self._usable[group] < self._least
            for group in self._groups.of_node[index]
        )
        if over:
            for group in self._groups.of_node[index]:
                self._out[group] -= 1
                self._usable[group] += int(not self._held[index])
        return over


def collector_is_stale(quiet: Flags, watched: Flags, settings: StateSettings) -> bool:
    """Did so many agents fall silent together that the way to them must be broken?

    ``quiet``: nothing was heard for half the time that makes an agent silent, so that the first
    ones to pass that time are judged with all of those that are about to; ``watched``: has an
    agent that spoke until lately.
    """
    among = int(np.count_nonzero(watched))
    return int(np.count_nonzero(quiet & watched)) > math.floor(settings.max_out_fraction * among)


def worst_first(candidates: Sequence[int], stalled: Flags, ratio: Sequence[float]) -> list[int]:
    """Order of ejection: who gets nowhere at all, then who fails the most."""
    return sorted(candidates, key=lambda index: (not stalled[index], -ratio[index], index))
