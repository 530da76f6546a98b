"""The roster and the table on the wire carry what the filter needs, in one order."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isocost.model import NodeState
from isocost.observe.fleet import SeenVm
from isocost.push.fleet import TableWork, encode_roster, encode_table, packed_floats
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


def work(count: int, **change: object) -> TableWork:
    ones, counts = np.ones(count), np.full(count, 7, dtype=np.int64)
    columns = {
        "capacity": ones,
        "pending_tokens": counts,
        "open": counts,
        "kv_tokens": counts,
        "token_s": ones,
        "request_s": ones,
        "extra_s": ones,
        "kv_capacity_tokens": ones,
    }
    return TableWork(**(columns | change))  # type: ignore[arg-type]


def table(count: int, columns: TableWork, **more: object) -> table_pb2.Table:
    ones, states = np.ones(count), [NodeState.SERVING] * count
    content = encode_table(1, 1, 1, ones, ones, states, columns, **more)  # type: ignore[arg-type]
    return table_pb2.Table.FromString(content)


def test_every_column_has_a_number_for_each_node() -> None:
    made = table(3, work(3, open=np.array([1, 2, 3])))
    assert list(made.open) == [1, 2, 3]
    for name in ("capacity", "pending_tokens", "kv_tokens", "token_s", "request_s", "extra_s"):
        assert len(getattr(made, name)) == 3
    assert len(made.kv_capacity_tokens) == 3


def test_sums_beyond_what_the_wire_carries_stop_no_table() -> None:
    many = np.array([2**40, -1, 5], dtype=np.int64)
    made = table(3, work(3, pending_tokens=many, extra_s=np.array([1e300, 0.0, math.inf])))
    assert list(made.pending_tokens) == [2**32 - 1, 0, 5]
    assert made.extra_s[0] == np.finfo(np.float32).max
    assert made.extra_s[2] == math.inf


def test_seen_and_placements_travel_with_the_table() -> None:
    seen, placements = [SeenVm(2**64 - 1, 9, 0.25)], {7: [1, 2**64 - 1]}
    made = table(1, work(1), seen=seen, placements=placements)
    (vm,) = made.seen
    assert (vm.incarnation, vm.sequence, vm.share) == (2**64 - 1, 9, 0.25)
    (placement,) = made.placements
    assert (placement.node_id, list(placement.blocks)) == (7, [1, 2**64 - 1])


def test_a_harness_without_work_columns_leaves_them_empty() -> None:
    content = encode_table(1, 1, 1, np.ones(1), np.ones(1), [NodeState.SERVING])
    made = table_pb2.Table.FromString(content)
    assert not made.capacity
    assert not made.open


@given(st.lists(st.floats(allow_nan=False), max_size=40))
def test_packed_numbers_are_what_protobuf_makes_of_them_one_by_one(numbers: list[float]) -> None:
    most = float(np.finfo(np.float32).max)
    expected = [x if math.isinf(x) else min(max(x, -most), most) for x in numbers]
    content = packed_floats(table_pb2.Table.EXTRA_S_FIELD_NUMBER, np.array(numbers))
    assert table_pb2.Table.FromString(content) == table_pb2.Table(extra_s=expected)
