"""EDS: concatenated bytes are the message that Envoy's own types would give."""

from __future__ import annotations

import numpy as np
import pytest
from envoy_data_plane.envoy.config.core.v3 import HealthStatus
from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment, LbEndpoint
from envoy_data_plane.google.protobuf import Any

from isocost.model import Node, NodeState
from isocost.push.resources import endpoints as module
from isocost.push.resources.endpoints import EndpointEncoder, integer_weights
from isocost.push.type_urls import ENDPOINTS
from tests.integration.harness.endpoints import NodeEndpoint, encode


def _node(name: str, address: str, rack: str = "rack-1") -> Node:
    return Node(name, f"{name}@1", address, rack, f"host-of-{name}")


def _parse(encoded: bytes) -> ClusterLoadAssignment:
    resource = Any.parse(encoded)
    assert resource.type_url == ENDPOINTS
    return ClusterLoadAssignment.parse(resource.value)


def _encode(*items: NodeEndpoint) -> ClusterLoadAssignment:
    name, encoded = encode(EndpointEncoder(), items)
    assert name == "isocost_nodes"
    return _parse(encoded)


def _by_address(assignment: ClusterLoadAssignment) -> dict[str, LbEndpoint]:
    found = {}
    for locality in assignment.endpoints:
        for item in locality.lb_endpoints:
            socket = item.endpoint.address.socket_address
            found[f"{socket.address}:{socket.port_value}"] = item
    return found


def test_an_endpoint_carries_address_state_weight_and_the_names_for_the_log() -> None:
    assignment = _encode(
        NodeEndpoint(_node("n1", "10.0.0.1:8000", "rack-b"), NodeState.SERVING, weight=300)
    )
    assert assignment.cluster_name == "isocost_nodes"
    (locality,) = assignment.endpoints
    assert locality.locality.zone == "rack-b"
    endpoint = _by_address(assignment)["10.0.0.1:8000"]
    assert endpoint.health_status is HealthStatus.HEALTHY
    assert endpoint.load_balancing_weight == 300
    names = endpoint.metadata.filter_metadata["isocost"].fields
    assert (names["node"].string_value, names["rack"].string_value) == ("n1", "rack-b")


def test_each_rack_is_one_locality() -> None:
    racks = ["b", "a", "b", "c", "a"]
    assignment = _encode(
        *(
            NodeEndpoint(_node(f"n{index}", f"10.0.0.{index}:80", rack), NodeState.SERVING)
            for index, rack in enumerate(racks)
        )
    )
    found = {item.locality.zone: len(item.lb_endpoints) for item in assignment.endpoints}
    assert found == {"a": 2, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("state", "health"),
    [
        (NodeState.WARMING, HealthStatus.HEALTHY),
        (NodeState.SERVING, HealthStatus.HEALTHY),
        (NodeState.SUSPECT, HealthStatus.HEALTHY),
        (NodeState.DRAINING, HealthStatus.DRAINING),
        (NodeState.EJECTED, HealthStatus.UNHEALTHY),
        (NodeState.LOST, HealthStatus.UNHEALTHY),
    ],
)
def test_the_nodes_state_is_the_endpoints_health(state: NodeState, health: HealthStatus) -> None:
    assignment = _encode(NodeEndpoint(_node("n", "10.0.0.1:80"), state))
    assert _by_address(assignment)["10.0.0.1:80"].health_status is health


def test_every_state_has_a_health() -> None:
    _encode(*(NodeEndpoint(_node(state.name, f"10.0.0.{state}:80"), state) for state in NodeState))


def test_an_ipv6_address_loses_its_brackets() -> None:
    assignment = _encode(NodeEndpoint(_node("n", "[fd00::7]:8000"), NodeState.SERVING))
    assert "fd00::7:8000" in _by_address(assignment)


@pytest.mark.parametrize("states", [(NodeState.LOST, NodeState.WARMING)])
def test_a_restarted_engine_stands_for_its_address(states: tuple[NodeState, NodeState]) -> None:
    former = Node("n", "n@1", "10.0.0.1:80", "r", "h")
    successor = Node("n", "n@2", "10.0.0.1:80", "r", "h")
    items = [NodeEndpoint(former, states[0]), NodeEndpoint(successor, states[1])]
    for order in (items, items[::-1]):
        (locality,) = _encode(*order).endpoints
        (endpoint,) = locality.lb_endpoints
        assert endpoint.health_status is HealthStatus.HEALTHY


def test_equal_nodes_in_another_order_give_equal_bytes() -> None:
    items = [
        NodeEndpoint(_node(f"n{index}", f"10.0.0.{index}:80", f"r{index % 3}"), NodeState.SERVING)
        for index in range(9)
    ]
    encoder = EndpointEncoder()
    assert encode(encoder, items) == encode(encoder, items[::-1])


def test_no_nodes_are_an_empty_assignment() -> None:
    assignment = _encode()
    assert assignment.cluster_name == "isocost_nodes"
    assert not assignment.endpoints


def test_a_node_is_encoded_once_whatever_changes_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[str] = []
    fixed_part = module._fixed_part

    def counting(node: Node) -> bytes:
        encoded.append(node.name)
        return fixed_part(node)

    monkeypatch.setattr(module, "_fixed_part", counting)
    encoder = EndpointEncoder()
    nodes = [_node(f"n{index}", f"10.0.0.{index}:80") for index in range(3)]
    encode(encoder, (NodeEndpoint(node, NodeState.SERVING, weight=10) for node in nodes))
    _, last = encode(encoder, (NodeEndpoint(node, NodeState.EJECTED, weight=20) for node in nodes))
    assert sorted(encoded) == ["n0", "n1", "n2"]
    endpoint = _by_address(_parse(last))["10.0.0.1:80"]
    assert endpoint.health_status is HealthStatus.UNHEALTHY
    assert endpoint.load_balancing_weight == 20


def test_a_rack_longer_than_one_length_byte_is_read_back_whole() -> None:
    count = 300
    assignment = _encode(
        *(
            NodeEndpoint(_node(f"n{index}", f"10.1.{index % 7}.{index}:8000"), NodeState.SERVING)
            for index in range(count)
        )
    )
    assert len(_by_address(assignment)) == count


@pytest.mark.parametrize(("weight", "integer"), [(0.0, 1), (1e-9, 1), (0.5, 500), (1.0, 1000)])
def test_a_weight_becomes_an_integer_of_at_least_1(weight: float, integer: int) -> None:
    assert integer_weights(np.array([weight])) == [integer]


def test_weights_of_the_largest_fleet_at_their_largest_sum_below_envoys_limit() -> None:
    # Envoy adds them up in 32 bits, for a locality and for the cluster.
    assert 10_240 * integer_weights(np.ones(1))[0] < 2**32


def test_an_encoder_that_saw_other_fleets_gives_what_a_new_one_gives() -> None:
    rng = np.random.default_rng(5)
    encoder = EndpointEncoder()
    # Few addresses, so that many are shared, and few racks, so that some lose all their nodes.
    fleet = [
        Node(f"n{number}", f"n{number}@1", f"10.0.0.{number % 7}:80", f"r{number % 3}", "h")
        for number in range(12)
    ]
    for _ in range(300):
        chosen = [node for node in fleet if rng.random() < 0.5]
        for _ in range(rng.integers(1, 3)):
            items = [
                NodeEndpoint(node, NodeState(rng.choice(NodeState)), int(rng.integers(1, 1001)))
                for node in chosen
            ]
            assert encode(encoder, items) == encode(EndpointEncoder(), items)
            shown = {item.node.address for item in items}
            assert set(_by_address(_parse(encode(encoder, items)[1]))) == shown
