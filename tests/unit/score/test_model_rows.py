"""Roster and table have a row for each model of each node."""

from __future__ import annotations

from isocost.model import Model
from isocost.score.model_rows import model_rows
from tests.unit.fleet_builder import node

SMALL, LARGE = Model("small"), Model("large", aliases=("big",))


def test_a_node_with_one_model_or_none_is_its_own_row() -> None:
    nodes = [node("a"), node("b", models=())]
    rows = model_rows(nodes)
    assert rows.nodes == tuple(nodes)
    assert rows.ids == tuple(item.id for item in nodes)
    assert not rows.differ


def test_each_model_of_a_node_has_a_row_at_the_node_s_address() -> None:
    both = node("b", models=(SMALL, LARGE))
    rows = model_rows([node("a"), both, node("c")])
    assert [row.models for row in rows.nodes[1:3]] == [(SMALL,), (LARGE,)]
    assert {(row.name, row.address, row.host) for row in rows.nodes[1:3]} == {
        (both.name, both.address, both.host)
    }
    assert rows.node_of.tolist() == [0, 1, 1, 2]
    assert rows.first.tolist() == [0, 1, 3]
    assert rows.parents == dict.fromkeys(rows.ids[1:3], both.id)
    assert len({*rows.ids, both.id}) == 5
    # The same in every control plane, and another for the next engine at the address.
    assert model_rows([both]).ids == rows.ids[1:3]
    assert not {*model_rows([node("b", instance_id="b@2", models=both.models)]).ids} & {*rows.ids}


def test_rows_of_the_same_cards_models_and_model_should_be_alike() -> None:
    rows = model_rows(
        [
            node("a", models=(SMALL,)),
            node("b", models=(SMALL,)),
            node("c", models=(SMALL, LARGE)),
            node("d", models=(SMALL, LARGE)),
            node("e", models=(SMALL,), gpu_kind="A100"),
            node("f", models=(SMALL,), gpu_count=2),
        ]
    )
    # What shares its cards with another model is not as fast as what has them for itself.
    assert rows.pool.tolist() == [0, 0, 1, 2, 1, 2, 3, 4]
