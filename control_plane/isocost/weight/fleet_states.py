"""The states of all nodes at one tick: facts and evidence in, standings and shares out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.model import Node, NodeSample, NodeState
from isocost.observe.fleet import Observed
from isocost.score.columns import Floats
from isocost.weight.ejection import Served, trial_open, trial_share
from isocost.weight.evidence import Evidence, Flags, evidence
from isocost.weight.lifecycle import Facts, Life, due_s, eject, first_life, let_in, step
from isocost.weight.limits import Groups, Limits, collector_is_stale, worst_first
from isocost.weight.progress import Progress, ProgressWatch
from isocost.weight.slow_start import ramp
from isocost.weight.standing import Reason, Standing, Transition

_FAULTS = (None, Reason.ENGINE_DOWN, Reason.AGENT_SILENT)
_NO_FAULT, _ENGINE_DOWN, _AGENT_SILENT = range(3)


@dataclass(frozen=True)
class Orders:
    """What operators want, by node name: time since each order to drain, and who is held at zero
    by a weight or an entropy set by hand.
    """

    drain_age_s: Mapping[str, float]
    held: Set[str]


@dataclass(frozen=True)
class FleetState:
    """The n nodes at one tick. ``factor`` [n] in [0,1] is the part of its share that each gets: 0
    exactly where it may get nothing. ``since_s`` [n] is when each state began.
    """

    standings: tuple[Standing, ...]
    since_s: Floats
    factor: Floats
    evidence: Evidence
    transitions: tuple[Transition, ...]


@dataclass(frozen=True)
class _Seen:
    """What one tick knows of the n nodes. ``fault`` is an index of ``_FAULTS``."""

    nodes: Sequence[Node]
    observed: Observed
    evidence: Evidence
    progress: Progress
    has_telemetry: Flags
    fault: NDArray[np.int8]
    collector_stale: Flags
    orders: Orders

    def facts(self, index: int) -> Facts:
        return Facts(
            fault=_FAULTS[self.fault[index]],
            drain_age_s=self.orders.drain_age_s.get(self.nodes[index].name),
            open_requests=int(self.observed.in_flight[index]),
            has_telemetry=bool(self.has_telemetry[index]),
            collector_stale=bool(self.collector_stale[index]),
            poor=bool(self.evidence.poor[index]),
            stalled=bool(self.progress.stalled[index]),
            stuck=bool(self.progress.stuck[index]),
            served=self.served(index),
        )

    def served(self, index: int) -> Served:
        total = self.observed.total
        return Served(int(total.started[index]), int(total.good[index]), int(total.failed[index]))


class FleetStates:
    """Remembers every node's life from tick to tick. Times are monotonic seconds."""

    def __init__(self, settings: StateSettings, lost_after_s: float) -> None:
        self._settings = settings
        self._lost_after_s = lost_after_s
        self._progress = ProgressWatch(settings, lost_after_s / 2)
        self._nodes: tuple[Node, ...] = ()
        self._lives: list[Life] = []
        self._groups = Groups(())
        # The lives as arrays, so that a tick looks closely only at the nodes that may change.
        self._state = np.zeros(0, dtype=np.int8)
        self._since_s = np.zeros(0)
        self._fault = np.zeros(0, dtype=np.int8)
        self._due_s = np.zeros(0)
        self._untold = np.zeros(0, dtype=np.bool_)
        self._out = np.zeros(0, dtype=np.bool_)

    def tick(
        self,
        nodes: tuple[Node, ...],
        samples: Sequence[NodeSample | None],
        ages_s: Sequence[float],
        observed: Observed,
        orders: Orders,
        now_s: float,
        adopting: bool,
    ) -> FleetState:
        """The states at ``now_s``. ``adopting``: nodes that are new here were serving already."""
        before: dict[int, Standing | None] = {}
        if nodes != self._nodes:
            self._follow(nodes, observed, now_s, adopting, before)
        seen = self._see(
            nodes, samples, np.array(ages_s, dtype=np.float64), observed, orders, now_s
        )
        for index in self._may_change(seen, now_s):
            after = step(self._lives[index], seen.facts(index), now_s, self._settings)
            self._put(index, after, before)
        self._judge(seen, now_s, before)
        transitions = tuple(
            Transition(nodes[index].name, former, self._lives[index].standing, now_s)
            for index, former in before.items()
            if former != self._lives[index].standing
        )
        return FleetState(
            standings=tuple(life.standing for life in self._lives),
            since_s=self._since_s.copy(),
            factor=self._factor(seen, now_s),
            evidence=seen.evidence,
            transitions=transitions,
        )

    def _follow(
        self,
        nodes: tuple[Node, ...],
        observed: Observed,
        now_s: float,
        adopting: bool,
        before: dict[int, Standing | None],
    ) -> None:
        """Take over a new roster."""
        place = {node.name: index for index, node in enumerate(self._nodes)}
        former = np.full(len(nodes), -1, dtype=np.intp)
        lives: list[Life] = []
        for index, node in enumerate(nodes):
            old = place.get(node.name)
            if old is None:
                life = first_life(None if adopting else Reason.NEW, now_s)
                before[index] = None
            elif self._nodes[old].instance_id == node.instance_id:
                former[index] = old
                life = self._lives[old]
            elif _without_epoch(node) or _without_epoch(self._nodes[old]):
                # The same engine under the other of its names; its counts begin anew.
                life = replace(self._lives[old], trial=None)
            else:
                life = first_life(Reason.RESTARTED, now_s)
                before[index] = self._lives[old].standing
            lives.append(life)
        self._progress.rearrange(former, observed)
        self._nodes, self._lives, self._groups = nodes, lives, Groups(nodes)
        self._state = np.zeros(len(nodes), dtype=np.int8)
        self._since_s = np.zeros(len(nodes))
        self._fault = np.zeros(len(nodes), dtype=np.int8)
        self._due_s = np.zeros(len(nodes))
        self._untold = np.zeros(len(nodes), dtype=np.bool_)
        self._out = np.zeros(len(nodes), dtype=np.bool_)
        for index, life in enumerate(lives):
            self._write(index, life)

    def _see(
        self,
        nodes: tuple[Node, ...],
        samples: Sequence[NodeSample | None],
        ages_s: Floats,
        observed: Observed,
        orders: Orders,
        now_s: float,
    ) -> _Seen:
        watched = np.array([sample is not None for sample in samples], dtype=np.bool_)
        down = np.array(
            [sample is not None and not sample.engine_up for sample in samples], dtype=np.bool_
        )
        silent = watched & (ages_s > self._lost_after_s)
        quiet = watched & (ages_s > self._lost_after_s / 2)
        lost_long = (self._state == NodeState.LOST) & (self._since_s < now_s - self._lost_after_s)
        stale = silent & ~lost_long
        if not collector_is_stale(quiet, watched & ~lost_long, self._settings):
            stale[:] = False
        fault = np.where(down, _ENGINE_DOWN, _NO_FAULT)
        fault[silent & ~stale] = _AGENT_SILENT
        return _Seen(
            nodes=nodes,
            observed=observed,
            evidence=evidence(observed, now_s, self._settings),
            progress=self._progress.update(samples, ages_s, observed, now_s),
            has_telemetry=watched,
            fault=fault.astype(np.int8),
            collector_stale=stale,
            orders=orders,
        )

    def _may_change(self, seen: _Seen, now_s: float) -> list[int]:
        """The nodes whose step could give another life than the one they have."""
        mask = (
            (now_s >= self._due_s)
            | ((self._state == NodeState.SERVING) & (seen.has_telemetry == self._untold))
            | (seen.fault != self._fault)
            | seen.collector_stale
            | (self._in_service() & (seen.evidence.poor | seen.progress.stalled))
        )
        if seen.orders.drain_age_s:
            names = seen.orders.drain_age_s
            mask |= np.array([node.name in names for node in seen.nodes], dtype=np.bool_)
        return list(np.flatnonzero(mask).tolist())

    def _judge(self, seen: _Seen, now_s: float, before: dict[int, Standing | None]) -> None:
        """Eject the worst that the limits allow; take back what is too much by now."""
        wanted = seen.evidence.bad | seen.progress.stalled
        out = self._out.copy()
        candidates = np.flatnonzero(wanted & ~out & self._in_service())
        if not candidates.size and not out.any():
            return
        names = seen.orders.held
        held = np.array([node.name in names for node in seen.nodes], dtype=np.bool_)
        judged = (self._state != NodeState.LOST) & (self._state != NodeState.DRAINING)
        limits = Limits(self._groups, out, judged, held, self._settings)
        stalled, ratio = seen.progress.stalled, seen.evidence.failure_ratio
        for index in worst_first(candidates.tolist(), stalled, ratio.tolist()):
            if limits.put_out(index):
                reason = Reason.NO_PROGRESS if stalled[index] else Reason.FAILURES
                self._put(index, eject(self._lives[index], reason, now_s, self._settings), before)
        # Those on trial first: they are the nearest to their return.
        aside = sorted(
            np.flatnonzero(out).tolist(),
            key=lambda i: (self._lives[i].trial is None, self._lives[i].ejections.until_s, i),
        )
        for index in aside:
            if limits.must_return(index):
                self._put(index, let_in(self._lives[index], now_s), before)

    def _in_service(self) -> Flags:
        return np.isin(self._state, [state for state in NodeState if state.eligible])

    def _factor(self, seen: _Seen, now_s: float) -> Floats:
        settings = self._settings
        share = np.where(seen.progress.stalled, settings.lowest_share, seen.evidence.share)
        factor = np.zeros(len(self._lives))
        factor[self._state == NodeState.SERVING] = 1.0
        factor[self._state == NodeState.SUSPECT] = settings.suspect_share
        warming = self._state == NodeState.WARMING
        factor[warming] = ramp(now_s - self._since_s[warming], settings)
        factor *= share
        started_per_s = float(seen.observed.recent.started.sum()) / settings.window_s
        per_node = trial_share(started_per_s / max(int((factor > 0).sum()), 1), settings)
        for index in np.flatnonzero(self._state == NodeState.SUSPECT).tolist():
            trial = self._lives[index].trial
            if trial is not None:
                may = trial_open(trial, seen.served(index), now_s, settings)
                factor[index] = per_node if may else 0.0
        return factor

    def _put(self, index: int, life: Life, before: dict[int, Standing | None]) -> None:
        if life is self._lives[index]:
            return
        before.setdefault(index, self._lives[index].standing)
        self._lives[index] = life
        self._write(index, life)

    def _write(self, index: int, life: Life) -> None:
        self._state[index] = life.state
        self._since_s[index] = life.since_s
        reason = life.standing.reason
        self._fault[index] = _FAULTS.index(reason) if life.state is NodeState.LOST else _NO_FAULT
        self._due_s[index] = due_s(life, self._settings)
        self._untold[index] = reason is Reason.NO_TELEMETRY
        self._out[index] = life.out


def _without_epoch(node: Node) -> bool:
    """Nobody knows when this instance started: a node of the discovery file."""
    return node.instance_id.rpartition("@")[2] == "0"
