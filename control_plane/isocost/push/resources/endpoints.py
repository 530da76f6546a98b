"""EDS: the nodes as Envoy's endpoints, encoded once per node and concatenated.

Encoding an endpoint takes 0.1 ms, so 1,024 of them would take most of a tick. A serialised message
is the concatenation of its fields, so what never changes of a node is encoded once and its state
and weight are put behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

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


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """A node as Envoy's fallback sees it. ``weight`` is an integer >= 1."""

    node: Node
    state: NodeState
    weight: int = 1


def integer_weight(weight: float) -> int:
    """The fallback's weight of a node whose weight is in [0, 1]: Envoy knows no weight 0."""
    return max(1, round(weight * _WEIGHT_STEPS))


class EndpointEncoder:
    """Encodes the endpoints of the node cluster; remembers the bytes of the nodes it saw last."""

    def __init__(self) -> None:
        self._fixed: dict[Node, bytes] = {}

    def encode(self, endpoints: Iterable[NodeEndpoint]) -> tuple[str, bytes]:
        """The EDS resource's name and its serialised Any.

        The bytes do not depend on the order of ``endpoints``, but for addresses that occur twice:
        there Envoy gets the last one that is eligible, else the last (an engine that was restarted
        follows its former self).
        """
        fixed: dict[Node, bytes] = {}
        racks: dict[str, list[bytes]] = {}
        for endpoint in sorted(_one_per_address(endpoints), key=lambda item: item.node.instance_id):
            node = endpoint.node
            fixed[node] = self._fixed.get(node) or _fixed_part(node)
            encoded = fixed[node] + _changing_part(endpoint.state, endpoint.weight)
            racks.setdefault(node.rack, []).append(_FIELD_2_MESSAGE + _sized(encoded))
        self._fixed = fixed
        assignment = bytes(ClusterLoadAssignment(cluster_name=NODE_CLUSTER))
        for rack, encoded_nodes in sorted(racks.items()):
            locality = _locality(rack) + b"".join(encoded_nodes)
            assignment += _FIELD_2_MESSAGE + _sized(locality)
        return NODE_CLUSTER, bytes(Any(type_url=ENDPOINTS, value=assignment))


def _one_per_address(endpoints: Iterable[NodeEndpoint]) -> Iterable[NodeEndpoint]:
    chosen: dict[str, NodeEndpoint] = {}
    for endpoint in endpoints:
        former = chosen.get(endpoint.node.address)
        if former is None or endpoint.state.eligible or not former.state.eligible:
            chosen[endpoint.node.address] = endpoint
    return chosen.values()


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


@lru_cache(maxsize=4096)
def _locality(rack: str) -> bytes:
    return bytes(LocalityLbEndpoints(locality=Locality(zone=rack)))


def _sized(message: bytes) -> bytes:
    """The message behind its length, a base-128 varint."""
    length = len(message)
    prefix = bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + message
