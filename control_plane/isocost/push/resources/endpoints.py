"""EDS: the nodes as Envoy's endpoints, encoded once per node and concatenated.

Encoding an endpoint takes 0.1 ms, so 1,024 of them would take most of a tick. A serialised message
is the concatenation of its fields, so what never changes of a node is encoded once and its state
and weight are put behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from envoy_data_plane.envoy.config.core.v3 import (
    Address,
    HealthStatus,
    Locality,
    Metadata,
    SocketAddress,
)
from envoy_data_plane.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    LbEndpoint,
    LocalityLbEndpoints,
)
from envoy_data_plane.google.protobuf import Any, Struct, Value
from numpy.typing import NDArray

from isocost.model import Node, NodeState
from isocost.push.resources.names import METADATA, NODE_CLUSTER
from isocost.push.type_urls import ENDPOINTS

#: Steps of the fallback's weights: 0.1 % of the best node. 10,240 nodes stay far below 2^32.
_WEIGHT_STEPS = 1000

_HEALTH = {
    NodeState.WARMING: HealthStatus.HEALTHY,
    NodeState.SERVING: HealthStatus.HEALTHY,
    NodeState.SUSPECT: HealthStatus.HEALTHY,
    NodeState.DRAINING: HealthStatus.DRAINING,
    NodeState.EJECTED: HealthStatus.UNHEALTHY,
    NodeState.LOST: HealthStatus.UNHEALTHY,
}

# ClusterLoadAssignment.endpoints and LocalityLbEndpoints.lb_endpoints: both are field 2, a message.
_FIELD_2_MESSAGE = b"\x12"


class _Rack(NamedTuple):
    """A locality: its own bytes, and by the places of its nodes, in their order, what of each stays
    the same.
    """

    locality: bytes
    nodes: tuple[tuple[int, bytes], ...]


def integer_weights(weights: NDArray[np.float64]) -> list[int]:
    """The fallback's weights of nodes whose weights are in [0, 1], [n]: Envoy knows no weight 0."""
    integers: list[int] = np.maximum(1, np.rint(weights * _WEIGHT_STEPS)).astype(int).tolist()
    return integers


class EndpointEncoder:
    """Encodes the endpoints of the node cluster. Weights change for all nodes at once, within a
    tick: what a node's bytes are else, and where they go, is kept for as long as the nodes are the
    same ones.
    """

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._fixed: dict[Node, bytes] = {}
        self._racks: tuple[_Rack, ...] = ()
        #: The places of nodes that have one address, where that is more than one.
        self._shared: tuple[tuple[int, ...], ...] = ()

    def encode(
        self, nodes: tuple[Node, ...], states: Sequence[NodeState], weights: Sequence[int]
    ) -> tuple[str, bytes]:
        """The EDS resource's name and its serialised Any. ``weights`` are integers >= 1.

        The bytes do not depend on the order of the nodes, but for addresses that occur twice: there
        Envoy gets the last one that is eligible, else the last (an engine that was restarted
        follows its former self).
        """
        if nodes != self._nodes:
            self._arrange(nodes)
        left_out = {
            place for places in self._shared for place in places if place != _last(states, places)
        }
        told = list(map(_changing_part, states, weights))
        assignment = [bytes(ClusterLoadAssignment(cluster_name=NODE_CLUSTER))]
        for locality, members in self._racks:
            parts = [locality]
            for place, fixed in members:
                if place not in left_out:
                    parts += _prefix(len(fixed) + len(told[place])), fixed, told[place]
            if len(parts) > 1:
                body = b"".join(parts)
                assignment += _prefix(len(body)), body
        return NODE_CLUSTER, bytes(Any(type_url=ENDPOINTS, value=b"".join(assignment)))

    def _arrange(self, nodes: tuple[Node, ...]) -> None:
        self._fixed = {node: self._fixed.get(node) or _fixed_part(node) for node in nodes}
        racks: dict[str, list[tuple[int, bytes]]] = {}
        by_address: dict[str, list[int]] = {}
        for place, node in sorted(enumerate(nodes), key=lambda item: item[1].instance_id):
            racks.setdefault(node.rack, []).append((place, self._fixed[node]))
        for place, node in enumerate(nodes):
            by_address.setdefault(node.address, []).append(place)
        self._racks = tuple(
            _Rack(bytes(LocalityLbEndpoints(locality=Locality(zone=rack))), tuple(members))
            for rack, members in sorted(racks.items())
        )
        self._shared = tuple(tuple(places) for places in by_address.values() if len(places) > 1)
        self._nodes = nodes


def _last(states: Sequence[NodeState], places: Sequence[int]) -> int:
    """Of nodes with one address the place of the one that Envoy gets."""
    eligible = [place for place in places if states[place].eligible]
    return (eligible or places)[-1]


def _fixed_part(node: Node) -> bytes:
    host, _, port = node.address.rpartition(":")
    socket_address = SocketAddress(address=host.strip("[]"), port_value=int(port))
    names = Struct(
        fields={"node": Value(string_value=node.name), "rack": Value(string_value=node.rack)}
    )
    return bytes(
        LbEndpoint(
            endpoint=Endpoint(address=Address(socket_address=socket_address)),
            metadata=Metadata(filter_metadata={METADATA: names}),
        )
    )


@lru_cache(maxsize=8192)
def _changing_part(state: NodeState, weight: int) -> bytes:
    return bytes(LbEndpoint(health_status=_HEALTH[state], load_balancing_weight=weight))


@lru_cache(maxsize=8192)
def _prefix(length: int) -> bytes:
    """What stands before a message of that length in field 2: the length is a base-128 varint."""
    prefix = bytearray(_FIELD_2_MESSAGE)
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix)
