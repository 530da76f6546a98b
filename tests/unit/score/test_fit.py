"""A model is served only by the cards that it is for and that can hold it."""

from __future__ import annotations

import pytest

from isocost.config import ModelPlacement
from isocost.model import Model, Node
from isocost.score.fit import Fitted, ModelFit
from tests.unit.fleet_builder import GB, node, sample
from tests.unit.sample_blocks import fleet_samples

SMALL = Model("7b", weight_bytes=int(14 * GB))
LARGE = Model("72b", weight_bytes=int(144 * GB))
QUANTISED = Model("72b-int4", weight_bits=4, weight_bytes=int(144 * GB))
RULES = (
    ModelPlacement(name="7b", gpu_kinds=("A100",)),
    ModelPlacement(name="72b-int4", gpu_kinds=("H100", "H200")),
)


def serving(name: str, kind: str, *models: Model) -> Node:
    return node(name, gpu_kind=kind, models=models)


def names(fitted: Fitted) -> list[list[str]]:
    return [[model.name for model in item.models] for item in fitted.nodes]


def test_models_go_to_the_kinds_that_are_configured() -> None:
    nodes = [serving("a", "A100", SMALL, QUANTISED), serving("h", "H100", SMALL, QUANTISED)]
    assert names(ModelFit(RULES).fitted(nodes, fleet_samples([None, None]))) == [
        ["7b"],
        ["72b-int4"],
    ]


def test_a_model_that_the_memory_cannot_hold_is_not_served() -> None:
    nodes = [serving("a", "X", SMALL, LARGE, QUANTISED)]
    fit = ModelFit(())
    assert names(fit.fitted(nodes, fleet_samples([sample(nodes[0], total_gb=80.0)]))) == [
        ["7b", "72b-int4"]
    ]


def test_memory_that_is_not_known_rules_nothing_out_and_is_remembered_when_it_goes() -> None:
    nodes = [serving("a", "X", LARGE)]
    fit = ModelFit(())
    assert names(fit.fitted(nodes, fleet_samples([None]))) == [["72b"]]
    assert fit.fitted(nodes, fleet_samples([sample(nodes[0])])).barred == {"a"}
    assert fit.fitted(nodes, fleet_samples([None])).barred == {"a"}
    unknown = ModelFit(()).fitted(
        [serving("a", "X", Model("m"))], fleet_samples([sample(nodes[0])])
    )
    assert names(unknown) == [["m"]]


def test_a_node_without_models_is_not_barred() -> None:
    assert ModelFit(RULES).fitted([serving("a", "X")], fleet_samples([None])).barred == frozenset()


def test_a_node_that_is_the_same_stays_the_same_object() -> None:
    fit, nodes = ModelFit(RULES), [serving("h", "H100", SMALL)]
    first = fit.fitted(nodes, fleet_samples([None])).nodes[0]
    assert fit.fitted(nodes, fleet_samples([None])).nodes[0] is first
    assert fit.fitted([serving("h", "A100", SMALL)], fleet_samples([None])).nodes[0].models == (
        SMALL,
    )


def test_the_log_says_once_which_model_is_left_out_and_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fit, nodes = ModelFit(RULES), [serving("h", "H100", SMALL, LARGE)]
    for _ in range(3):
        fit.fitted(nodes, fleet_samples([sample(nodes[0], total_gb=80.0)]))
    assert caplog.messages == [
        "node h does not serve model 7b: it is for A100",
        "node h does not serve model 72b: it needs 144.0 GB, the node has 80.0 GB",
    ]


def test_the_answer_is_the_same_object_while_nodes_and_memory_are_known_and_the_same() -> None:
    fit, nodes = ModelFit(RULES), [serving("h", "H100", SMALL)]
    first = fit.fitted(nodes, fleet_samples([None]))
    known = fit.fitted(nodes, fleet_samples([sample(nodes[0])]))
    assert known is not first
    assert fit.fitted(list(nodes), fleet_samples([None])) is known
    more = [*nodes, serving("a", "A100", SMALL)]
    assert names(fit.fitted(more, fleet_samples([None, None]))) == [[], ["7b"]]
    assert names(fit.fitted(nodes, fleet_samples([None]))) == [[]]
