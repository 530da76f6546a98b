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

#: Fewer agents than this that fall silent together are no sign of a common cause.
_FEWEST_SILENT = 2


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
    or on trial; ``judged`` = neither lost nor draining; ``held`` = at zero by hand; ``mute`` = its
    agent is silent, with most others.

    The cap is for judgement by the gateways alone. Where the agent is silent too the two agree, so
    mute nodes are not under the cap; that some must stay holds for them as well.
    """

    def __init__(
        self,
        groups: Groups,
        out: Flags,
        judged: Flags,
        held: Flags,
        mute: Flags,
        settings: StateSettings,
    ) -> None:
        self._groups = groups
        self._out = groups.counts(out & ~mute)
        self._usable = groups.counts(judged & ~out & ~held)
        self._held, self._mute = held, mute
        spoken = groups.counts(judged & ~mute)
        self._most = np.floor(spoken * settings.max_out_fraction).astype(np.int64)
        self._least = settings.min_eligible

    def exceeded(self) -> bool:
        """Is too much aside in any group?"""
        return bool(((self._out > self._most) | (self._usable < self._least)).any())

    def put_out(self, index: int) -> bool:
        """Put one more node aside if there is room in all of its groups."""
        used, counted = int(not self._held[index]), int(not self._mute[index])
        for group in self._groups.of_node[index]:
            if counted and self._out[group] >= self._most[group]:
                return False
            if self._usable[group] - used < self._least:
                return False
        for group in self._groups.of_node[index]:
            self._out[group] += counted
            self._usable[group] -= used
        return True

    def must_return(self, index: int) -> bool:
        """Is more aside than may be, in one of the groups of this node, which is aside?

        Happens when others are lost, drained or removed. True takes the node back.
        """
        counted = int(not self._mute[index])
        over = any(
            (counted and self._out[group] > self._most[group]) or self._usable[group] < self._least
            for group in self._groups.of_node[index]
        )
        if over:
            for group in self._groups.of_node[index]:
                self._out[group] -= counted
                self._usable[group] += int(not self._held[index])
        return over


def without_room(limits: Limits, worst_first: Sequence[int], count: int) -> Flags:
    """Put out as many of the nodes in this order as the limits allow; the others of them, [n]."""
    flags = np.zeros(count, dtype=np.bool_)
    flags[[index for index in worst_first if not limits.put_out(index)]] = True
    return flags


def host_numbers(nodes: Sequence[Node]) -> NDArray[np.intp]:
    """Each node's host as a number [n]: its nodes share an agent, and fall silent with it."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(node.host, len(numbers)) for node in nodes], dtype=np.intp)


def collector_is_stale(
    quiet: Flags, watched: Flags, host: NDArray[np.intp], settings: StateSettings
) -> bool:
    """Did so many agents, or engines' pages, fall silent together that the way to them must be
    broken?

    Agents are counted, by their ``host`` [n], not nodes: one machine that dies takes all of its
    nodes along, however many. One silent agent among others is its own fault; a fleet whose only
    agents are all silent has nobody to show that, and goes on.
    ``quiet``: nothing was heard for half the time that makes an agent silent, so that the first
    ones to pass that time are judged with all of those that are about to; ``watched``: has an
    agent that spoke until lately.
    """
    hosts = np.unique(host[watched])
    silent = np.setdiff1d(hosts, host[watched & ~quiet], assume_unique=False).size
    if silent == hosts.size:
        return silent > 0
    return silent >= _FEWEST_SILENT and silent > math.floor(settings.max_out_fraction * hosts.size)


def worst_first(candidates: Sequence[int], stalled: Flags, ratio: Sequence[float]) -> list[int]:
    """Order of ejection: who gets nowhere at all, then who fails the most."""
    return sorted(candidates, key=lambda index: (not stalled[index], -ratio[index], index))
