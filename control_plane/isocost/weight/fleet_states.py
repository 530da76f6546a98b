"""The states of all nodes at one tick: facts and evidence in, standings and shares out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.model import SAMPLE_FRESH_S, Node, NodeState
from isocost.observe.fleet import Observed
from isocost.score.columns import Floats
from isocost.score.fleet_samples import FleetSamples
from isocost.score.health_table import Action
from isocost.score.telemetry import FleetTelemetry, engine_idle
from isocost.weight.ejection import Served, trial_open, trial_share
from isocost.weight.evidence import Evidence, Flags, evidence
from isocost.weight.guarded import NOTHING_GUARDED, Guarded
from isocost.weight.hardware_watch import FleetHardware, HardwareWatch
from isocost.weight.life_table import (
    AGENT_SILENT,
    DOUBT_CODES,
    ENGINE_DOWN,
    FAULTS,
    NO_DOUBT,
    NO_FAULT,
    UNREACHABLE,
    Codes,
    LifeTable,
    News,
)
from isocost.weight.lifecycle import Facts, Life, begin_trial, eject, first_life, let_in, step
from isocost.weight.limits import (
    Groups,
    Limits,
    collector_is_stale,
    host_numbers,
    without_room,
    worst_first,
)
from isocost.weight.progress import ProgressWatch
from isocost.weight.slow_start import ramp
from isocost.weight.standing import Reason, Standing, Transition
from isocost.weight.told import STREAM_SILENT_S, Discovered, Told, faults, refusing

_DOUBT_OF: dict[int, Reason | None] = {
    NO_DOUBT: None,
    **{code: reason for reason, code in DOUBT_CODES.items()},
}


@dataclass(frozen=True)
class Orders:
    """What operators want, by node name: time since each order to drain, and who is held at zero
    by a weight or an entropy set by hand.
    """

    drain_age_s: Mapping[str, float]
    held: Set[str]


@dataclass(frozen=True)
class FleetState:
    """The n nodes at one tick. ``states`` [n] are the NodeStates of the ``standings``. ``factor``
    [n] in [0,1] is the part of its share that each gets: 0 exactly where it may get nothing.
    ``since_s`` [n] is when each state began. ``hardware`` is what the health table found; its
    factor is not in ``factor``.
    """

    standings: tuple[Standing, ...]
    states: Codes
    since_s: Floats
    factor: Floats
    evidence: Evidence
    hardware: FleetHardware
    transitions: tuple[Transition, ...]

    def of(self, rows: NDArray[np.intp]) -> FleetState:
        """The nodes in these places, as a decision asks for them: the evidence is that of all."""
        hardware = replace(
            self.hardware, factor=self.hardware.factor[rows], action=self.hardware.action[rows]
        )
        return replace(
            self,
            standings=tuple(self.standings[row] for row in rows),
            states=self.states[rows],
            since_s=self.since_s[rows],
            factor=self.factor[rows],
            hardware=hardware,
            transitions=(),
        )


@dataclass(frozen=True)
class _Seen:
    """What one tick knows of the n nodes."""

    nodes: Sequence[Node]
    observed: Observed
    evidence: Evidence
    hardware: FleetHardware
    news: News
    #: Nodes whose agents are silent with most others.
    mute: Flags
    orders: Orders

    def facts(self, index: int) -> Facts:
        news, drain_age_s = self.news, float(self.news.drain_age_s[index])
        return Facts(
            fault=FAULTS[news.fault[index]],
            drain_age_s=None if math.isnan(drain_age_s) else drain_age_s,
            empty=bool(news.empty[index]),
            has_telemetry=bool(news.has_telemetry[index]),
            hardware=Action(int(news.hardware[index])),
            doubt=_DOUBT_OF[int(news.doubt[index])],
            poor=bool(news.poor[index]),
            stalled=bool(news.stalled[index]),
            stuck=bool(news.stuck[index]),
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
        self._hardware = HardwareWatch()
        self._nodes: tuple[Node, ...] = ()
        self._table = LifeTable((), settings)
        self._groups = Groups(())
        self._host = host_numbers(())

    def configure(self, settings: StateSettings, lost_after_s: float) -> None:
        """Other settings from the next tick on; every node's life goes on."""
        self._settings, self._lost_after_s = settings, lost_after_s
        self._progress.settings, self._progress.fresh_s = settings, lost_after_s / 2
        self._table.configure(settings)

    def tick(
        self,
        nodes: tuple[Node, ...],
        samples: FleetSamples,
        ages_s: Sequence[float] | Floats,
        telemetry: FleetTelemetry,
        observed: Observed,
        orders: Orders,
        now_s: float,
        adopting: bool,
        guarded: Guarded = NOTHING_GUARDED,
        discovered: Discovered | None = None,
    ) -> FleetState:
        """The states at ``now_s``. ``adopting``: nodes that are new here were serving already.
        ``discovered``: None, no list and no probe says anything of any node.
        """
        before: dict[int, Standing | None] = {}
        if nodes != self._nodes:
            self._follow(nodes, observed, now_s, adopting, before)
        seen = self._see(
            nodes,
            samples,
            np.asarray(ages_s, dtype=np.float64),
            telemetry,
            observed,
            orders,
            guarded,
            discovered,
            now_s,
        )
        table = self._table
        for index in table.may_change(seen.news, now_s):
            after = step(table.life(index), seen.facts(index), now_s, self._settings)
            self._put(index, after, before)
        self._judge(seen, guarded.idle_stuck, now_s, before)
        transitions = tuple(
            Transition(nodes[index].name, former, table.lives[index].standing, now_s)
            for index, former in before.items()
            if former != table.lives[index].standing
        )
        return FleetState(
            standings=tuple(table.standings),
            states=table.state.copy(),
            since_s=table.since_s.copy(),
            factor=self._factor(seen, now_s),
            evidence=seen.evidence,
            hardware=seen.hardware,
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
                life = self._table.life(old)
            elif _without_epoch(node) or _without_epoch(self._nodes[old]):
                # The same engine under the other of its names; its counts begin anew.
                life = replace(self._table.life(old), trial=None)
            else:
                life = first_life(Reason.RESTARTED, now_s)
                before[index] = self._table.lives[old].standing
            lives.append(life)
        self._progress.rearrange(former, observed)
        self._nodes, self._groups, self._host = nodes, Groups(nodes), host_numbers(nodes)
        self._table = LifeTable(lives, self._settings)

    def _see(
        self,
        nodes: tuple[Node, ...],
        samples: FleetSamples,
        ages_s: Floats,
        telemetry: FleetTelemetry,
        observed: Observed,
        orders: Orders,
        guarded: Guarded,
        discovered: Discovered | None,
        now_s: float,
    ) -> _Seen:
        watched, down = samples.there, samples.down.copy()
        # A page that hangs is no engine that is down while the gateways get answers.
        hangs = samples.silent
        silent = watched & (ages_s > self._lost_after_s)
        quiet = watched & ((ages_s > self._lost_after_s / 2) | hangs)
        table = self._table
        lost_long = (table.state == NodeState.LOST) & (table.since_s < now_s - self._lost_after_s)
        stale = (silent | hangs) & ~lost_long
        lately = watched & ~lost_long
        if not (stale.any() and collector_is_stale(quiet, lately, self._host, self._settings)):
            stale[:] = False
        down &= ~(hangs & (stale | (observed.recent.good > 0.0)))
        fault = np.where(down, ENGINE_DOWN, NO_FAULT)
        fault[silent & ~stale] = AGENT_SILENT
        drain_age_s = self._drain_ages_s(nodes, orders)
        warned = unreachable = np.zeros_like(watched)
        if discovered is not None:
            warned = discovered.told == Told.WARNING
            by_list = faults(discovered, watched & (ages_s <= STREAM_SILENT_S), stale)
            fault = np.where(by_list != NO_FAULT, by_list, fault)
            present = (fault == NO_FAULT) & np.isnan(drain_age_s)
            # Who answers a gateway is there.
            refuses = discovered.unreachable & ~watched & present & (observed.recent.good <= 0.0)
            limits = self._limits_of_facts(present, orders)
            most = self._settings.max_out_fraction * np.count_nonzero(present)
            gone, unreachable = refusing(refuses, table.state == NodeState.LOST, limits, most)
            fault[gone] = UNREACHABLE
        hardware = self._hardware.tick(self._nodes, samples, ages_s.tolist(), now_s)
        present = (fault == NO_FAULT) & np.isnan(drain_age_s)
        acts, doubtful = self._limited(hardware.action, present, orders)
        found = evidence(observed, now_s, self._settings)
        progress = self._progress.update(telemetry, ages_s, observed, now_s)
        return _Seen(
            nodes=nodes,
            observed=observed,
            evidence=found,
            hardware=hardware,
            news=News(
                fault=fault.astype(np.int8),
                drain_age_s=drain_age_s,
                empty=self._empty(samples, ages_s, observed),
                has_telemetry=watched,
                hardware=acts,
                doubt=self._doubts(guarded, stale, doubtful, warned, unreachable),
                poor=found.poor,
                stalled=progress.stalled,
                stuck=progress.stuck,
                good=observed.total.good,
                failed=observed.total.failed,
            ),
            mute=stale,
            orders=orders,
        )

    def _limits_of_facts(self, present: Flags, orders: Orders) -> Limits:
        """The room for what is found by other means than answers. Who is put aside by judgement
        has a limit of its own, but is nobody to rely on.
        """
        none = np.zeros_like(present)
        unusable = _held(self._nodes, orders) | self._table.out
        return Limits(self._groups, none, present, unusable, none, self._settings)

    def _limited(self, action: Codes, present: Flags, orders: Orders) -> tuple[Codes, Flags]:
        """What hardware does to each node, and which ones it would put out beyond the limits.

        A driver or an agent that reports nonsense everywhere must not empty the fleet. Those that
        are out stay out, then the worse come first. ``present``: neither lost nor to be drained.
        """
        wanted = present & (action >= Action.DRAIN)
        acts = np.where(wanted, action, Action.IGNORE).astype(np.int8)
        doubtful = np.zeros_like(wanted)
        if wanted.any():
            table, limits = self._table, self._limits_of_facts(present, orders)
            order = sorted(
                np.flatnonzero(wanted).tolist(),
                key=lambda index: (not table.hardware[index], -action[index], index),
            )
            doubtful = without_room(limits, order, len(wanted))
            acts[doubtful] = Action.IGNORE
        return acts, doubtful

    def _doubts(
        self,
        guarded: Guarded,
        collector_stale: Flags,
        hardware_doubtful: Flags,
        warned: Flags,
        unreachable: Flags,
    ) -> Codes:
        """The strongest doubt of each node. What its numbers say of it is believed where it does
        its full work: half of a share could be more than the ramp of a node that warms.
        """
        table = self._table
        doubt = np.full(len(table.lives), NO_DOUBT, dtype=np.int8)
        full = (table.state == NodeState.SERVING) | (table.state == NodeState.SUSPECT)
        doubt[warned & full] = DOUBT_CODES[Reason.CHECK_WARNING]
        for index, reason in guarded.doubts.items():
            if full[index]:
                doubt[index] = DOUBT_CODES[reason]
        doubt[unreachable] = DOUBT_CODES[Reason.UNREACHABLE]
        doubt[collector_stale] = DOUBT_CODES[Reason.COLLECTOR_STALE]
        doubt[hardware_doubtful] = DOUBT_CODES[Reason.HARDWARE]
        return doubt

    def _drain_ages_s(self, nodes: Sequence[Node], orders: Orders) -> Floats:
        ages_s = orders.drain_age_s
        if not ages_s:
            return np.full(len(nodes), math.nan)
        return np.array([ages_s.get(node.name, math.nan) for node in nodes], dtype=np.float64)

    def _empty(self, samples: FleetSamples, ages_s: Floats, observed: Observed) -> Flags:
        """Draining nodes that have nothing open: both the gateways and the engine must say so."""
        empty: Flags = (
            (self._table.state == NodeState.DRAINING)
            & observed.in_flight_known
            & (observed.in_flight == 0)
        )
        for index in np.flatnonzero(empty).tolist():
            sample = samples[index]
            fresh = ages_s[index] <= SAMPLE_FRESH_S
            empty[index] = sample is None or (fresh and engine_idle(sample))
        return empty

    def _judge(
        self,
        seen: _Seen,
        idle_stuck: Sequence[int],
        now_s: float,
        before: dict[int, Standing | None],
    ) -> None:
        """Eject the worst that the limits allow, try who is stuck; take back what is too much by
        now.
        """
        table, stalled = self._table, seen.news.stalled
        out = table.out.copy()
        may_go = ~out & table.in_service()
        candidates = np.flatnonzero((seen.evidence.bad | stalled) & may_go)
        if not candidates.size and not idle_stuck and not out.any():
            return
        held = _held(seen.nodes, seen.orders)
        judged = (table.state != NodeState.LOST) & (table.state != NodeState.DRAINING)
        judged &= table.hardware == Action.IGNORE
        limits = Limits(self._groups, out, judged, held, seen.mute, self._settings)
        ratio = seen.evidence.failure_ratio
        for index in worst_first(candidates.tolist(), stalled, ratio.tolist()):
            if limits.put_out(index):
                reason = Reason.NO_PROGRESS if stalled[index] else Reason.FAILURES
                self._put(index, eject(table.lives[index], reason, now_s, self._settings), before)
        for index in idle_stuck:
            if may_go[index] and not table.out[index] and limits.put_out(index):
                life = begin_trial(table.lives[index], Reason.IDLE_STUCK, seen.served(index), now_s)
                self._put(index, life, before)
        if not limits.exceeded():
            return
        # Those on trial first: they are the nearest to their return.
        aside = sorted(
            np.flatnonzero(out).tolist(),
            key=lambda i: (table.lives[i].trial is None, table.lives[i].ejections.until_s, i),
        )
        for index in aside:
            if limits.must_return(index):
                self._put(index, let_in(table.lives[index], now_s), before)

    def _factor(self, seen: _Seen, now_s: float) -> Floats:
        settings, table = self._settings, self._table
        share = np.where(seen.news.stalled, settings.lowest_share, seen.evidence.share)
        factor = np.zeros(len(table.lives))
        factor[table.state == NodeState.SERVING] = 1.0
        factor[table.state == NodeState.SUSPECT] = settings.suspect_share
        factor[table.doubt == DOUBT_CODES[Reason.JITTER]] = settings.jitter_share
        warming = table.state == NodeState.WARMING
        factor[warming] = ramp(now_s - table.since_s[warming], settings)
        factor *= share
        started_per_s = float(seen.observed.recent.started.sum()) / settings.window_s
        per_node = trial_share(started_per_s / max(int((factor > 0).sum()), 1), settings)
        for index in np.flatnonzero(table.trial).tolist():
            trial = table.lives[index].trial
            if trial is not None:
                may = trial_open(trial, seen.served(index), now_s, settings)
                factor[index] = per_node if may else 0.0
        return factor

    def _put(self, index: int, life: Life, before: dict[int, Standing | None]) -> None:
        former = self._table.lives[index]
        if life is not former:
            before.setdefault(index, former.standing)
            self._table.put(index, life)


def _held(nodes: Sequence[Node], orders: Orders) -> Flags:
    return np.array([node.name in orders.held for node in nodes], dtype=np.bool_)


def _without_epoch(node: Node) -> bool:
    """Nobody knows when this instance started: a node of the discovery file."""
    return node.instance_id.rpartition("@")[2] == "0"
