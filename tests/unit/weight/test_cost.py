"""What predicts a request's time: learned speeds, the node's state, and what came past us."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isocost.model import NodeSample
from isocost.observe.speeds import Speeds
from isocost.weight.cost import REQUEST_S, Costs, costs
from isocost.weight.requests import RequestMean
from tests.unit.fleet_builder import ABSENT, GB, KV_BYTES_PER_TOKEN, observed_nothing, sample
from tests.unit.weight.test_capacity import REQUEST
from tests.unit.weight.test_decide import NODES, run

TOKEN_S = 1e-4


def found(
    samples: list[NodeSample | None],
    factor: float = 1.0,
    in_flight: int = 0,
    ages_s: list[float] | None = None,
) -> Costs:
    count = len(samples)
    learned = np.ones(count, dtype=np.bool_)
    speeds = Speeds(np.full(count, TOKEN_S), np.full(count, 1e-2), learned)
    observed = replace(observed_nothing(count), in_flight=np.full(count, in_flight))
    telemetry = run(samples, ages_s).telemetry
    return costs(speeds, REQUEST, telemetry, observed, np.full(count, factor))


def test_a_node_that_warms_counts_as_that_much_slower() -> None:
    made = found([sample(of) for of in NODES], factor=0.25)
    assert made.token_s.tolist() == pytest.approx([4 * TOKEN_S] * 3)
    assert made.request_s.tolist() == pytest.approx([4 * REQUEST_S] * 3)
    assert made.token.value.tolist() == pytest.approx([TOKEN_S] * 3)


def test_a_node_that_may_get_nothing_still_has_finite_times() -> None:
    made = found([sample(of) for of in NODES], factor=0.0)
    assert np.isfinite(made.token_s).all()
    assert np.isfinite(made.request_s).all()


def test_the_queue_that_came_past_the_gateways_costs_its_prefill() -> None:
    samples = [sample(of, running=10.0, waiting=4.0) for of in NODES]
    one = REQUEST.prompt_tokens * TOKEN_S
    assert found(samples, in_flight=14).extra_s.tolist() == [0.0] * 3
    assert found(samples, in_flight=12).extra_s.tolist() == pytest.approx([2 * one] * 3)
    # No more than the whole queue: what runs is not waited for.
    assert found(samples, in_flight=0).extra_s.tolist() == pytest.approx([4 * one] * 3)


@pytest.mark.parametrize(
    ("change", "age_s"), [({"waiting": ABSENT}, 0.0), ({"running": ABSENT}, 0.0), ({}, 5.0)]
)
def test_a_queue_that_is_not_known_now_costs_nothing(
    change: dict[str, object], age_s: float
) -> None:
    samples = [sample(of, **({"waiting": 4.0} | change)) for of in NODES]  # type: ignore[arg-type]
    assert found(samples, ages_s=[age_s] * 3).extra_s.tolist() == [0.0] * 3


def test_a_queue_that_is_not_known_is_the_median_of_those_that_are() -> None:
    waiting = (2.0, 8.0, ABSENT)
    samples: list[NodeSample | None] = [
        sample(of, running=0.0, waiting=queue) for of, queue in zip(NODES, waiting, strict=True)
    ]
    one = REQUEST.prompt_tokens * TOKEN_S
    assert found(samples).extra_s.tolist() == pytest.approx([2 * one, 8 * one, 5 * one])


def test_the_kv_pool_is_in_tokens_the_median_where_unknown_and_zero_where_nobody_tells() -> None:
    samples = [sample(NODES[0], kv_pool_gb=60.0), sample(NODES[1], kv_pool_gb=ABSENT), None]
    tokens = 60.0 * GB / KV_BYTES_PER_TOKEN
    assert found(samples).kv_capacity_tokens.tolist() == pytest.approx([tokens] * 3)
    assert found(samples, ages_s=[9.0] * 3).kv_capacity_tokens[0] == pytest.approx(tokens)
    assert found([None] * 3).kv_capacity_tokens.tolist() == [0.0] * 3


def test_the_mean_request_is_what_is_open_less_the_answers_that_are_expected() -> None:
    mean = RequestMean()
    assert mean.update(observed_nothing(2), None, 0.0).prompt_tokens > 0
    busy = replace(
        observed_nothing(2), in_flight=np.array([10, 30]), kv_tokens=np.array([20_000, 60_000])
    )
    request = mean.update(busy, 500.0, 0.2)
    assert request.prompt_tokens == pytest.approx(1500.0)
    assert request.output_tokens == 500.0
    other = replace(busy, kv_tokens=np.array([40_000, 120_000]))
    assert 1500.0 < mean.update(other, 500.0, 0.4).prompt_tokens < 1600.0
