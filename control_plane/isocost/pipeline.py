"""One tick: from the registry and the observations to a published roster, table and endpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from isocost.config import ControlPlaneConfig
from isocost.discovery.registry import Registry
from isocost.errors import RejectedError
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
from isocost.weight.override import Override

#: The fallback's weights follow ours this often at most: every change rebuilds Envoy's balancer.
ENDPOINT_WEIGHTS_S = 10.0


class Pipeline:
    """Holds what one tick leaves for the next. Times are arguments: monotonic and unix."""

    def __init__(
        self,
        config: ControlPlaneConfig,
        registry: Registry,
        observer: FleetObserver,
        cache: Cache,
    ) -> None:
        self._config = config
        self._registry = registry
        self._observer = observer
        self._cache = cache
        self._encoder = EndpointEncoder()
        self._roster: tuple[int, TypeResources] | None = None
        self._endpoint_states: tuple[NodeState, ...] = ()
        self._endpoint_weights_s = 0.0
        self.overrides: dict[str, Override] = {}
        self.nodes: tuple[Node, ...] = ()
        self.samples: tuple[NodeSample | None, ...] = ()
        self.ages_s: tuple[float, ...] = ()
        self.decision: Decision | None = None
        self.observed: Observed | None = None
        self.table_version = 0
        cache.publish(
            TypeResources.hashed(CLUSTER, dict([node_cluster(config.envoy)])),
            TypeResources.hashed(ROUTES, dict([routes(config.envoy, config.filter)])),
            TypeResources.hashed(EXTENSION, dict([extension_config(config.envoy, config.filter)])),
        )

    def tick(self, now_s: float, unix_ms: int) -> None:
        """Score the fleet as it is known now and publish it.

        Before the first discovery nothing is published, so that a restart never empties a roster.
        """
        if not self._registry.first_discovery_done(now_s):
            return
        views = self._registry.view(now_s)
        nodes = tuple(view.node for view in views)
        roster_changed = self._roster is None or nodes != self.nodes
        if roster_changed:
            version, content = encode_roster(nodes)
            self._roster = (version, roster_resources(version, content))
            self._observer.keep([node.id for node in nodes])
        assert self._roster is not None
        self.nodes = nodes
        self.samples = tuple(view.sample for view in views)
        self.ages_s = tuple(view.sample_age_s for view in views)
        self.observed = self._observer.view([node.id for node in nodes], now_s)
        self.decision = decide(
            nodes,
            self.samples,
            self.ages_s,
            self.observed,
            self.overrides,
            self._config.weight,
            self._config.entropy,
            self._config.discovery.lost_after_ms / 1e3,
        )
        # Versions rise, also when the clock stands still or was set back.
        self.table_version = max(self.table_version + 1, unix_ms)
        roster_version, roster = self._roster
        states = [standing.state for standing in self.decision.standings]
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

    def _endpoints(
        self, states: Sequence[NodeState], roster_changed: bool, now_s: float
    ) -> TypeResources | None:
        """The endpoints if nodes or states changed, or if the weights are due."""
        due = now_s - self._endpoint_weights_s >= ENDPOINT_WEIGHTS_S
        if not (roster_changed or due or tuple(states) != self._endpoint_states):
            return None
        assert self.decision is not None
        self._endpoint_states = tuple(states)
        self._endpoint_weights_s = now_s
        name, body = self._encoder.encode(
            NodeEndpoint(node, state, integer_weight(float(weight)))
            for node, state, weight in zip(self.nodes, states, self.decision.weight, strict=True)
        )
        return TypeResources.hashed(ENDPOINTS, {name: body})

    def set_override(self, name: str, override: Override | None) -> None:
        """Set or clear what an operator wants of a node; RejectedError if there is no such node."""
        known = sorted(node.name for node in self.nodes)
        if name not in known and name not in self.overrides:
            listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
            raise RejectedError(f"there is no node {name!r}; known: {listed or 'none'}")
        if override is None:
            self.overrides.pop(name, None)
        else:
            self.overrides[name] = override

    def states(self) -> dict[str, int]:
        """Nodes by state, every state named."""
        standings = self.decision.standings if self.decision else ()
        found = Counter(standing.state for standing in standings)
        return {state.name.lower(): found[state] for state in NodeState}
