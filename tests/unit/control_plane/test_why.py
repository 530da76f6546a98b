"""Why a node has its numbers: the contributions make exactly the numbers of the table."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from isocost.config import ControlPlaneConfig
from isocost.daemon import ControlPlane
from isocost.errors import RejectedError
from isocost.manual import Note
from isocost.model import ABSENT, UNSUPPORTED, Model, NodeSample, Signal, SignalState
from isocost.observe.batch import Batch, NodeObservation, PrefillSums
from tests.unit.fleet_builder import KV_BYTES_PER_TOKEN, node, sample
from tests.unit.sample_blocks import agent_report

NAMES = ("a", "b", "c")
NODES = {name: node(name, address=f"192.0.2.{number}:80") for number, name in enumerate(NAMES, 1)}


def fleet(**samples: NodeSample) -> ControlPlane:
    """Three nodes, two ticks after they were heard of; requests are open on b."""
    made = ControlPlane(ControlPlaneConfig())
    now_s = time.monotonic()
    told = tuple(samples.get(name, sample(item)) for name, item in NODES.items())
    made._registry.receive(agent_report("agent", 1, 0.0, 0.0, told), now_s)
    observed = tuple(
        NodeObservation(item.id, in_flight=4 * (name == "b"), open_age_s_sum=8.0 * (name == "b"))
        for name, item in NODES.items()
    )
    made._observer.apply(Batch("edge", 1, 1, observed), now_s)
    made._pipeline.tick(now_s, 1_790_000_000_000)
    made._pipeline.tick(now_s + 0.4, 1_790_000_000_400)
    return made


def told(made: ControlPlane, name: str) -> dict[str, Any]:
    return dict(json.loads(json.dumps(made.why(name), allow_nan=False)))


def term(part: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [item for item in part["terms"] if item["term"] == name]
    return dict(found)


def contributions(part: dict[str, Any]) -> list[float]:
    return [item["contribution"] for item in part["terms"]]


@pytest.mark.parametrize("name", NAMES)
def test_contributions_make_the_numbers(name: str) -> None:
    made = fleet(
        a=sample(NODES["a"], free_gb=1.0, pcie=32e9, nvlink=0.5),
        b=sample(NODES["b"], kv_usage=0.9, waiting=3.0, net=5e6),
    )
    answer = told(made, name)
    latest = made._pipeline.latest
    assert latest is not None
    index = NAMES.index(name)
    for part, number in (("weight", latest.decision.weight), ("share", latest.capacity)):
        assert answer[part]["value"] == number[index]
        assert math.prod(contributions(answer[part])) == pytest.approx(number[index])
    assert sum(contributions(answer["entropy"])) == pytest.approx(latest.decision.entropy[index])
    assert answer["entropy"]["value"] == latest.decision.entropy[index]
    assert sum(contributions(answer["predicted_s"])) == pytest.approx(
        answer["predicted_s"]["value"]
    )
    assert (answer["state"], answer["reason"], answer["policy"]) == ("serving", "ok", "equal_cost")


def test_each_term_says_what_is_known_and_what_stands_in_for_it() -> None:
    stale = Signal(SignalState.STALE, 96e9, age_s=2.0)
    made = fleet(
        a=sample(NODES["a"], free_gb=ABSENT, pcie=stale),
        b=sample(NODES["b"], pcie=UNSUPPORTED),
    )
    answer = told(made, "a")
    free = term(answer["weight"], "free_vram_share")
    assert (free["value"], free["state"], free["age_s"]) == (None, "absent", None)
    # The others have (10 + 30) / 80.
    assert free["used"] == pytest.approx(0.5)
    pcie = term(answer["weight"], "pcie_utilisation")
    assert (pcie["value"], pcie["state"], pcie["age_s"]) == (0.75, "stale", 2.0)
    assert 0.0 < pcie["used"] < 0.75
    assert term(told(made, "b")["weight"], "pcie_utilisation")["state"] == "unsupported"
    assert answer["signals"]["gpus"][0]["vram_free_bytes"] == {"state": "absent"}


def test_each_model_of_a_node_with_several_has_the_numbers_of_its_own_row() -> None:
    models = tuple(Model(name, kv_bytes_per_token=KV_BYTES_PER_TOKEN) for name in ("7b", "72b"))
    both = node("b", address=NODES["b"].address, models=models)
    made = fleet(b=sample(both))
    assert made._pipeline.latest is not None
    rows = made._pipeline.latest.by_model.rows
    _, small_id, large_id, _ = rows.ids
    now_s = time.monotonic()
    for tick in range(2, 12):
        now_s += 0.2
        slow = PrefillSums(2, 1000.0, 4.0)
        seen = (
            NodeObservation(small_id, prefill=PrefillSums(2, 1000.0, 0.2)),
            NodeObservation(large_id, in_flight=3, pending_tokens=900, prefill=slow),
        )
        made._observer.apply(Batch("edge", 1, tick, seen), now_s)
        made._pipeline.tick(now_s, 1_790_000_000_000 + 200 * tick)
    latest, answer = made._pipeline.latest, told(made, "b")
    numbers = latest.by_model
    assert [item["model"] for item in answer["by_model"]] == ["7b", "72b"]
    for row, of in enumerate(answer["by_model"], start=1):
        for part, number in (("weight", numbers.decision.weight), ("share", numbers.capacity)):
            assert of[part]["value"] == number[row]
            assert math.prod(contributions(of[part])) == pytest.approx(number[row])
        assert sum(contributions(of["predicted_s"])) == pytest.approx(of["predicted_s"]["value"])
    small, large = answer["by_model"]
    assert small["predicted_s"]["value"] < large["predicted_s"]["value"]
    assert term(large["predicted_s"], "pending_tokens")["value"] == 900
    assert term(small["predicted_s"], "pending_tokens")["value"] == 0
    assert small["share"]["value"] > large["share"]["value"] > 0.0
    # What is told of the node itself is its first model's.
    assert (answer["share"], answer["predicted_s"]) == (small["share"], small["predicted_s"])
    assert told(made, "a")["by_model"] == []


def test_open_requests_and_what_is_set_by_hand_show() -> None:
    made = fleet()
    answer = told(made, "b")
    assert term(answer["predicted_s"], "open_requests")["value"] == 4
    assert term(answer["entropy"], "open_ages")["contribution"] > 0
    assert answer["drain"] is None


async def test_a_drained_node_has_no_share_and_an_infinite_entropy() -> None:
    made = fleet()
    await made.drain("c", True, Note("ana", 0.0, ""))
    made._pipeline.tick(time.monotonic() + 0.6, 1_790_000_000_600)
    answer = told(made, "c")
    assert answer["state"] == "draining" and answer["drain"]["who"] == "ana"
    assert answer["entropy"]["value"] == "inf"
    assert answer["weight"]["value"] == answer["share"]["value"] == 0.0
    assert term(answer["weight"], "node_state")["contribution"] == 0.0


def test_a_node_that_is_not_in_the_table_is_refused_with_those_that_are() -> None:
    with pytest.raises(RejectedError, match="no node 'x' in the table; it has a, b, c"):
        fleet().why("x")
    with pytest.raises(RejectedError, match="it is empty"):
        ControlPlane(ControlPlaneConfig()).why("a")
