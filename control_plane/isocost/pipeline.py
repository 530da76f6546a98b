"""One tick: from the registry and the observations to a published roster, table and endpoints."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from isocost.config import ControlPlaneConfig
from isocost.discovery.registry import Registry
from isocost.errors import RejectedError
from isocost.first_roster import FirstRoster
from isocost.guard_log import GuardLog
from isocost.manual import Manual
from isocost.model import Node, NodeState
from isocost.observe.fleet import FleetObserver, Observed, with_parts
from isocost.output import named
from isocost.push.cache import Cache
from isocost.push.estimates import EstimatesSource
from isocost.push.fleet import (
    TableWork,
    encode_roster,
    encode_table,
    roster_resources,
    table_resources,
)
from isocost.push.resources.endpoints import EndpointEncoder, integer_weights
from isocost.push.resources.of_settings import settings_resources
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import ENDPOINTS
from isocost.score.columns import Floats
from isocost.score.constants import RosterConstants, roster_constants
from isocost.score.fit import ModelFit
from isocost.score.fleet_samples import FleetSamples
from isocost.score.health_table import Action
from isocost.score.model_engines import model_engines
from isocost.score.model_rows import ModelRows, model_rows
from isocost.score.telemetry import fleet_telemetry
from isocost.weight.by_model import ByModel, by_model
from isocost.weight.cost import Costs
from isocost.weight.decide import Decision, decide
from isocost.weight.fleet_states import FleetStates, Orders
from isocost.weight.guards import Guards, Scored
from isocost.weight.hardware_watch import FleetHardware
from isocost.weight.life_table import Codes
from isocost.weight.override import Override
from isocost.weight.requests import RequestMean
from isocost.weight.standing import Reason, Transition

#: The fallback's weights follow ours this often at most: every change rebuilds Envoy's balancer.
ENDPOINT_WEIGHTS_S = 10.0

#: A tick logs this many changes of state one by one; when the whole fleet changes, that is news of
#: another kind and must not hold up the table.
_LOGGED_TRANSITIONS = 20

_ELIGIBLE = [state for state in NodeState if state.eligible]

#: Of a node that may serve none of its models.
_NOTHING = Override(weight=0.0)

#: A roster is not waited for because of these.
_NOT_THERE = (Reason.AGENT_SILENT, Reason.WITHDRAWN, Reason.UNREACHABLE)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Latest:
    """What the last tick published, as one: nobody sees the nodes of one tick with the numbers of
    another. ``at_s`` is monotonic.
    """

    nodes: tuple[Node, ...]
    samples: FleetSamples
    ages_s: Floats
    clock_offsets_s: Floats
    observed: Observed
    scored: Scored
    decision: Decision
    #: What the table has of them, a row for each model of each node.
    by_model: ByModel
    #: Speed, and share of the traffic that each should take, relative to the best, [n]; as the
    #: costs of a node's first model.
    speed: Floats
    capacity: Floats
    costs: Costs
    #: The mean request that these are of.
    prompt_tokens: float
    table_version: int
    at_s: float
    at_unix_s: float

    @property
    def heard_of(self) -> frozenset[str]:
        """The names of all nodes but those that are not there, as far as anybody can tell."""
        return frozenset(
            node.name
            for node, standing in zip(self.nodes, self.decision.state.standings, strict=True)
            if standing.reason not in _NOT_THERE
        )


class Pipeline:
    """Holds what one tick leaves for the next. Times are arguments: monotonic and unix."""

    def __init__(
        self,
        config: ControlPlaneConfig,
        registry: Registry,
        observer: FleetObserver,
        cache: Cache,
        manual: Manual,
        expected: Set[str] = frozenset(),
    ) -> None:
        """``expected``: the names that the first roster waits for, see FirstRoster."""
        self._config = config
        self._registry = registry
        self._observer = observer
        self._cache = cache
        self._first = FirstRoster(config.discovery.settle_ms / 1e3, expected)
        self._states = FleetStates(config.states, config.discovery.lost_after_ms / 1e3)
        self._guards = Guards(config.states, config.entropy)
        self._guard_log = GuardLog()
        self._fit = ModelFit(config.models)
        self._requests = RequestMean()
        self._estimates = EstimatesSource(observer.history, config.models)
        self._encoder = EndpointEncoder()
        self._roster: tuple[int, TypeResources] | None = None
        self._node_ids: tuple[int, ...] = ()
        self._constants: RosterConstants = roster_constants((), config.entropy)
        #: What a table has a row of, and its constants.
        self._rows: ModelRows = model_rows(())
        self._row_constants = self._constants
        self._endpoint_health: Codes = np.zeros(0, dtype=np.int8)
        self._endpoint_weights_s = 0.0
        #: Settings by hand; replaced as a whole.
        self.manual = manual
        #: None before the first roster. A tick that fails leaves it as it is.
        self.latest: Latest | None = None
        #: Changes of state since the start of this process: (from, to, reason) and how often.
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        cache.publish(*settings_resources(config.envoy, config.filter))

    def configure(self, config: ControlPlaneConfig) -> None:
        """Other settings from the next tick on. All that was learned and ordered stays, and so do
        the sources of nodes.
        """
        self._cache.publish(*settings_resources(config.envoy, config.filter))
        self._config = config
        self._registry.configure(config.discovery)
        self._observer.configure(config.weight.latency_window_s, config.states.window_s)
        self._states.configure(config.states, config.discovery.lost_after_ms / 1e3)
        self._guards.configure(config.states, config.entropy)
        self._fit.configure(config.models)
        self._estimates.configure(config.models)
        # What was made of it, with the capacities, is made anew.
        self._roster = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the published roster."""
        return () if self.latest is None else self.latest.nodes

    @property
    def table_version(self) -> int:
        """The version of the published table; 0 = none."""
        return 0 if self.latest is None else self.latest.table_version

    def tick(self, now_s: float, unix_ms: int) -> None:
        """Score the fleet as it is known now and publish it.

        Before the first discovery is complete nothing is published, so that a restart never
        empties or shrinks a roster. What the next tick compares with is set once all is published,
        so that a tick which fails half-way loses no change.
        """
        view = self._registry.view(now_s)
        # Once complete it stays so. Not in one condition: both take note of the time.
        complete = self.latest is not None or self._first.complete(
            dict(zip((node.name for node in view.nodes), view.ages_s.tolist(), strict=True)), now_s
        )
        if not (self._registry.first_discovery_done(now_s) and complete):
            return
        samples, ages_s = view.samples, view.ages_s
        fitted = self._fit.fitted(view.nodes, samples)
        nodes = fitted.nodes
        roster, node_ids, constants = self._roster, self._node_ids, self._constants
        rows, row_constants = self._rows, self._row_constants
        if roster is None or nodes != self.nodes:
            rows = model_rows(nodes)
            version, content = encode_roster(rows.nodes)
            roster = version, roster_resources(version, content)
            node_ids = tuple(node.id for node in nodes)
            constants = roster_constants(nodes, self._config.entropy)
            row_constants = roster_constants(rows.nodes, self._config.entropy)
            self._observer.keep(node_ids, rows.parents)
        observed, of_rows = self._observed(rows, node_ids, now_s)
        overrides = self.manual.overrides | dict.fromkeys(fitted.barred, _NOTHING)
        orders = self._orders(overrides, unix_ms / 1e3)
        telemetry = fleet_telemetry(constants.kv_bytes_per_token, samples, ages_s)
        engines = model_engines(rows, row_constants.kv_bytes_per_token, samples, ages_s)
        telemetry = telemetry if engines is None else engines.on_nodes(telemetry)
        scored = self._guards.tick(
            nodes,
            telemetry,
            view.clock_offsets_s,
            observed,
            constants,
            rows.pool[rows.first],
            now_s,
        )
        state = self._states.tick(
            nodes,
            samples,
            ages_s,
            scored.signs,
            observed,
            orders,
            now_s,
            # Those of the first roster were there before this process, however late it is.
            adopting=self.latest is None or not self._first.settled(now_s),
            guarded=scored.guarded,
            discovered=view.discovered,
        )
        self._note(state.transitions)
        _log_findings(state.hardware)
        self._guard_log.tell(nodes, scored.found)
        decision = decide(
            nodes,
            scored.telemetry,
            scored.terms,
            observed,
            state,
            overrides,
            self._config.weight,
        )
        request = self._requests.update(observed, self._observer.history.mean_output_tokens, now_s)
        table_numbers = by_model(
            rows,
            engines,
            decision,
            observed,
            of_rows,
            row_constants,
            self._observer.speeds(rows.ids, rows.pool, now_s, scored.jitter.late[rows.node_of]),
            request,
            overrides,
            self._config.weight,
        )
        latest = Latest(
            nodes,
            samples,
            ages_s,
            view.clock_offsets_s,
            observed,
            scored,
            decision,
            table_numbers,
            table_numbers.speed[rows.first],
            table_numbers.capacity[rows.first],
            table_numbers.costs.of(rows.first) if rows.differ else table_numbers.costs,
            request.prompt_tokens,
            # Versions rise, also when the clock stands still or was set back.
            table_version=max(self.table_version + 1, unix_ms),
            at_s=now_s,
            at_unix_s=unix_ms / 1e3,
        )
        roster_version, roster_content = roster
        table = encode_table(
            latest.table_version,
            roster_version,
            unix_ms,
            table_numbers.decision.weight,
            table_numbers.decision.entropy,
            table_numbers.decision.state.states,
            _table_work(table_numbers),
            self._observer.seen(now_s),
            self._observer.placements.take(),
        )
        health = _health(latest, orders.held)
        types = [roster_content, table_resources(latest.table_version, table)]
        estimates = self._estimates.due(now_s)
        if estimates is not None:
            types.append(estimates)
        endpoints_due = roster is not self._roster or not np.array_equal(
            health, self._endpoint_health
        )
        if endpoints_due:
            types.append(self._endpoints(latest, health))
        self._cache.publish(*types)
        self.latest = latest
        self._roster, self._node_ids, self._constants = roster, node_ids, constants
        self._rows, self._row_constants = rows, row_constants
        if endpoints_due:
            self._endpoint_health, self._endpoint_weights_s = health, now_s

    def refresh_endpoints(self, now_s: float) -> None:
        """Publish the weights of Envoy's fallback, when they are due. Not in a tick: of a large
        fleet they take a quarter of one, and no table should come later for that.
        """
        if self.latest is None or now_s - self._endpoint_weights_s < ENDPOINT_WEIGHTS_S:
            return
        self._cache.publish(self._endpoints(self.latest, self._endpoint_health))
        self._endpoint_weights_s = now_s

    def _observed(
        self, rows: ModelRows, node_ids: tuple[int, ...], now_s: float
    ) -> tuple[Observed, Observed]:
        """What the gateways see of the nodes, and of the rows."""
        of_rows = self._observer.view(rows.ids, now_s)
        if not rows.differ:
            return of_rows, of_rows
        of_nodes = self._observer.view(node_ids, now_s)
        return with_parts(of_nodes, of_rows, rows.node_of, rows.whole), of_rows

    def _orders(self, overrides: Mapping[str, Override], unix_s: float) -> Orders:
        held = {
            name
            for name, override in overrides.items()
            if override.weight == 0.0 or override.entropy == math.inf
        }
        return Orders(
            {name: unix_s - note.at_unix_s for name, note in self.manual.drains.items()}, held
        )

    def _note(self, transitions: Sequence[Transition]) -> None:
        """Count every change of state and log it."""
        for number, change in enumerate(transitions):
            before = change.before.state.name.lower() if change.before else "none"
            after, reason = change.after.state.name.lower(), change.after.reason.value
            self.transitions[before, after, reason] += 1
            if number < _LOGGED_TRANSITIONS:
                level = logging.INFO if change.after.state.eligible else logging.WARNING
                log.log(
                    level,
                    "node %s: %s -> %s (%s)",
                    *(change.node, before, after, reason),
                    extra={"node": change.node, "from": before, "to": after, "reason": reason},
                )
        more = len(transitions) - _LOGGED_TRANSITIONS
        if more > 0:
            log.warning("%d more nodes changed their state at once", more)

    def _endpoints(self, latest: Latest, health: Codes) -> TypeResources:
        states = {state.value: state for state in NodeState}
        name, body = self._encoder.encode(
            latest.nodes,
            [states[code] for code in health.tolist()],
            integer_weights(latest.decision.weight),
        )
        return TypeResources.hashed(ENDPOINTS, {name: body})

    def require_known(self, name: str) -> None:
        """RejectedError, with the names that are known, if there is no such node and nothing is
        set by hand for one.
        """
        known = [node.name for node in self.nodes]
        if name in known or name in self.manual.nodes:
            return
        raise RejectedError(f"there is no node {name!r}; known: {named(known) or 'none'}")

    def states(self) -> dict[str, int]:
        """Nodes by state, every state named."""
        standings = self.latest.decision.state.standings if self.latest else ()
        found = Counter(standing.state for standing in standings)
        return {state.name.lower(): found[state] for state in NodeState}


def _log_findings(hardware: FleetHardware) -> None:
    """A line for each finding that begins or ends, as far as there are not too many."""
    for begins, changes in ((True, hardware.begun), (False, hardware.ended)):
        for name, finding in changes[:_LOGGED_TRANSITIONS]:
            action = finding.row.action
            level = logging.WARNING if begins and action > Action.IGNORE else logging.INFO
            log.log(
                level,
                "node %s, %s: %s%s %g (%s)",
                name,
                finding.gpu or "all GPUs",
                "" if begins else "no longer ",
                finding.row.name,
                finding.value,
                action.name.lower(),
                extra={"node": name, "gpu": finding.gpu, "row": finding.row.name},
            )
        more = len(changes) - _LOGGED_TRANSITIONS
        if more > 0:
            log.warning("%d more findings %s at once", more, "begin" if begins else "end")


def _table_work(numbers: ByModel) -> TableWork:
    observed, costs = numbers.observed, numbers.costs
    return TableWork(
        numbers.capacity,
        observed.pending_tokens,
        observed.in_flight,
        observed.kv_tokens,
        costs.token_s,
        costs.request_s,
        costs.extra_s,
        costs.kv_capacity_tokens,
    )


def _health(latest: Latest, held: Set[str]) -> Codes:
    """The nodes' health as Envoy is told: its fallback and its retries know no other rule.

    To Envoy all states in which a node gets requests are one, and one that may get nothing now,
    whatever its state, is as good as ejected.
    """
    states, some = latest.decision.state.states, latest.decision.state.factor > 0.0
    if held:
        some = some & [node.name not in held for node in latest.nodes]
    eligible = np.isin(states, _ELIGIBLE)
    health = np.where(some, NodeState.SERVING, NodeState.EJECTED).astype(np.int8)
    return np.where(eligible, health, states)
