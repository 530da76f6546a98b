"""One tick: from the registry and the observations to a published roster, table and endpoints."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence

from isocost.config import ControlPlaneConfig
from isocost.discovery.registry import Registry
from isocost.errors import RejectedError
from isocost.first_roster import FirstRoster
from isocost.manual import Manual
from isocost.model import Node, NodeSample, NodeState
from isocost.observe.fleet import FleetObserver, Observed
from isocost.push.cache import Cache
from isocost.push.fleet import encode_roster, encode_table, roster_resources, table_resources
from isocost.push.resources.cluster import node_cluster
from isocost.push.resources.endpoints import EndpointEncoder, NodeEndpoint, integer_weight
from isocost.push.resources.extension_config import extension_config
from isocost.push.resources.routes import routes
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, ENDPOINTS, EXTENSION, ROUTES
from isocost.weight.decide import Decision, decide
from isocost.weight.fleet_states import FleetStates, Orders
from isocost.weight.standing import Transition

#: The fallback's weights follow ours this often at most: every change rebuilds Envoy's balancer.
ENDPOINT_WEIGHTS_S = 10.0

#: A tick logs this many changes of state one by one; when the whole fleet changes, that is news of
#: another kind and must not hold up the table.
_LOGGED_TRANSITIONS = 20

#: To Envoy all states in which a node gets requests are one.
_HEALTH = {state: NodeState.SERVING if state.eligible else state for state in NodeState}

log = logging.getLogger(__name__)


class Pipeline:
    """Holds what one tick leaves for the next. Times are arguments: monotonic and unix."""

    def __init__(
        self,
        config: ControlPlaneConfig,
        registry: Registry,
        observer: FleetObserver,
        cache: Cache,
        manual: Manual,
    ) -> None:
        self._config = config
        self._registry = registry
        self._observer = observer
        self._cache = cache
        self._first = FirstRoster(config.discovery.settle_ms / 1e3)
        self._states = FleetStates(config.states, config.discovery.lost_after_ms / 1e3)
        self._encoder = EndpointEncoder()
        self._roster: tuple[int, TypeResources] | None = None
        self._node_ids: list[int] = []
        self._endpoint_health: tuple[NodeState, ...] = ()
        self._endpoint_weights_s = 0.0
        #: Settings by hand; replaced as a whole.
        self.manual = manual
        self.nodes: tuple[Node, ...] = ()
        self.samples: tuple[NodeSample | None, ...] = ()
        self.ages_s: tuple[float, ...] = ()
        self.decision: Decision | None = None
        self.observed: Observed | None = None
        self.table_version = 0
        #: When the last tick was.
        self.tick_s = 0.0
        self.tick_unix_s = 0.0
        #: Changes of state since the start of this process: (from, to, reason) and how often.
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        cache.publish(
            TypeResources.hashed(CLUSTER, dict([node_cluster(config.envoy)])),
            TypeResources.hashed(ROUTES, dict([routes(config.envoy, config.filter)])),
            TypeResources.hashed(EXTENSION, dict([extension_config(config.envoy, config.filter)])),
        )

    def tick(self, now_s: float, unix_ms: int) -> None:
        """Score the fleet as it is known now and publish it.

        Before the first discovery is complete nothing is published, so that a restart never
        empties or shrinks a roster.
        """
        views = self._registry.view(now_s)
        ages_s = {view.node.name: view.sample_age_s for view in views}
        # Not in one condition: both take note of the time.
        complete = self._first.complete(ages_s, now_s)
        if not (self._registry.first_discovery_done(now_s) and complete):
            return
        self.tick_s, self.tick_unix_s = now_s, unix_ms / 1e3
        nodes = tuple(view.node for view in views)
        roster_changed = self._roster is None or nodes != self.nodes
        if roster_changed:
            version, content = encode_roster(nodes)
            self._roster = (version, roster_resources(version, content))
            self._node_ids = [node.id for node in nodes]
            self._observer.keep(self._node_ids)
            self.nodes = nodes
        assert self._roster is not None
        self.samples = tuple(view.sample for view in views)
        self.ages_s = tuple(ages_s.values())
        self.observed = self._observer.view(self._node_ids, now_s)
        state = self._states.tick(
            self.nodes,
            self.samples,
            self.ages_s,
            self.observed,
            self._orders(self.tick_unix_s),
            now_s,
            adopting=not self._first.settled(now_s),
        )
        self._note(state.transitions)
        self.decision = decide(
            self.nodes,
            self.samples,
            self.ages_s,
            self.observed,
            state,
            self.manual.overrides,
            self._config.weight,
            self._config.entropy,
        )
        # Versions rise, also when the clock stands still or was set back.
        self.table_version = max(self.table_version + 1, unix_ms)
        roster_version, roster = self._roster
        states = [standing.state for standing in state.standings]
        table = encode_table(
            self.table_version,
            roster_version,
            unix_ms,
            self.decision.weight,
            self.decision.entropy,
            states,
        )
        types = [roster, table_resources(self.table_version, table)]
        if endpoints := self._endpoints(states, roster_changed, now_s):
            types.append(endpoints)
        self._cache.publish(*types)

    def _orders(self, unix_s: float) -> Orders:
        held = {
            name
            for name, override in self.manual.overrides.items()
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
                log.log(level, "node %s: %s -> %s (%s)", change.node, before, after, reason)
        more = len(transitions) - _LOGGED_TRANSITIONS
        if more > 0:
            log.warning("%d more nodes changed their state at once", more)

    def _endpoints(
        self, states: Sequence[NodeState], roster_changed: bool, now_s: float
    ) -> TypeResources | None:
        """The endpoints if nodes or their health changed, or if the weights are due."""
        due = now_s - self._endpoint_weights_s >= ENDPOINT_WEIGHTS_S
        health = tuple(map(_HEALTH.__getitem__, states))
        if not (roster_changed or due or health != self._endpoint_health):
            return None
        assert self.decision is not None
        self._endpoint_health = health
        self._endpoint_weights_s = now_s
        name, body = self._encoder.encode(
            NodeEndpoint(node, state, integer_weight(float(weight)))
            for node, state, weight in zip(self.nodes, states, self.decision.weight, strict=True)
        )
        return TypeResources.hashed(ENDPOINTS, {name: body})

    def require_known(self, name: str) -> None:
        """RejectedError, with the names that are known, if there is no such node and nothing is
        set by hand for one.
        """
        known = [node.name for node in self.nodes]
        if name in known or name in self.manual.nodes:
            return
        listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        raise RejectedError(f"there is no node {name!r}; known: {listed or 'none'}")

    def states(self) -> dict[str, int]:
        """Nodes by state, every state named."""
        standings = self.decision.state.standings if self.decision else ()
        found = Counter(standing.state for standing in standings)
        return {state.name.lower(): found[state] for state in NodeState}
