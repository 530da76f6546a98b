"""The roster and the table on the wire carry what the filter needs, in one order."""

import math

import numpy as np

from isocost.model import NodeState
from isocost.push.fleet import encode_roster, encode_table
from isocost.v1 import roster_pb2, table_pb2
from tests.unit.fleet_builder import node

NODES = [node("a"), node("b", address="192.0.2.2:8000")]


def test_equal_nodes_give_an_equal_roster_version_and_a_changed_one_another() -> None:
    version, content = encode_roster(NODES)
    assert encode_roster([node("a"), node("b", address="192.0.2.2:8000")]) == (version, content)
    restarted = [NODES[0], node("b", address="192.0.2.2:8000", instance_id="b@2")]
    assert encode_roster(restarted)[0] != version


def test_a_roster_carries_the_identity_of_each_instance() -> None:
    version, content = encode_roster(NODES)
    roster = roster_pb2.Roster.FromString(content)
    assert roster.version == version
    assert [item.id for item in roster.nodes] == [item.id for item in NODES]
    assert [item.address for item in roster.nodes] == ["192.0.2.1:8000", "192.0.2.2:8000"]
    assert roster.nodes[0].models[0].kv_bytes_per_token == NODES[0].models[0].kv_bytes_per_token


def test_a_table_keeps_infinity_and_tiny_weights() -> None:
    content = encode_table(
        5,
        9,
        1_790_000_000_000,
        np.array([1.0, float(np.finfo(np.float32).tiny)]),
        np.array([0.25, math.inf]),
        [NodeState.SERVING, NodeState.DRAINING],
    )
    table = table_pb2.Table.FromString(content)
    assert (table.version, table.roster_version) == (5, 9)
    assert table.weight[1] > 0
    assert list(table.entropy) == [0.25, math.inf]
    assert list(table.state) == [NodeState.SERVING, NodeState.DRAINING]


def test_a_table_takes_nine_bytes_a_node() -> None:
    def size(count: int) -> int:
        ones = np.ones(count)
        return len(encode_table(1, 1, 1, ones, ones, [NodeState.SERVING] * count))

    assert (size(1024) - size(512)) / 512 <= 9.1
