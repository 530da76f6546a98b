"""SGLang's pages: recorded ones, several ranks, several versions."""

from __future__ import annotations

import pytest

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, measured
from isocost.telemetry.engines.sglang import read_page
from tests.unit.telemetry.pages import recorded


def test_the_page_of_an_overloaded_server_shows_its_queue() -> None:
    got = read_page(recorded("sglang", "sglang-saturated-llama31-8b.txt"))
    assert got.sample.running == measured(162)
    assert got.sample.waiting == measured(2826)
    assert got.sample.kv_usage == measured(0.28)
    assert got.sample.prompt_tokens_total == measured(8_128_902)
    assert got.sample.generation_tokens_total == measured(7_557_572)
    # This version has no gauge of the pool, and no counter that moves during an answer.
    assert got.sample.kv_pool_tokens == UNSUPPORTED
    assert got.sample.steps_total == UNSUPPORTED
    assert got.started_unix_s is None
    assert got.engine == "sglang"


def test_the_page_of_an_idle_server_has_zeros_that_are_measured() -> None:
    got = read_page(recorded("sglang", "sglang-idle-llama31-8b.txt")).sample
    assert got.running == got.waiting == got.kv_usage == measured(0)
    assert got.prompt_tokens_total == measured(7)
    assert got.generation_tokens_total == measured(8)


def ranks(name: str, values: dict[tuple[int, int], float], more: str = "") -> str:
    """Values by (dp_rank, tp_rank)."""
    return "".join(
        f'sglang:{name}{{engine_type="unified",model_name="m",dp_rank="{dp}",tp_rank="{tp}",'
        f'pp_rank="0"{more}}} {value}\n'
        for (dp, tp), value in values.items()
    )


def test_tensor_ranks_tell_one_scheduler_and_data_ranks_one_each() -> None:
    got = read_page(
        ranks("num_running_reqs", {(0, 0): 3, (0, 1): 3, (1, 0): 4, (1, 1): 4})
        + ranks("num_queue_reqs", {(0, 0): 1, (0, 1): 1, (1, 0): 0, (1, 1): 0})
        + ranks("token_usage", {(0, 0): 0.9, (0, 1): 0.9, (1, 0): 0.1, (1, 1): 0.1})
        + ranks("max_total_num_tokens", {(0, 0): 1000, (0, 1): 1000, (1, 0): 3000, (1, 1): 3000})
    ).sample
    assert got.running == measured(7)
    assert got.waiting == measured(1)
    assert got.kv_pool_tokens == measured(4000)
    assert got.kv_usage.value == pytest.approx((0.9 * 1000 + 0.1 * 3000) / 4000)


def test_the_sum_over_priorities_is_not_added_to_its_parts() -> None:
    parts = "".join(
        ranks("num_queue_reqs", {(0, 0): value}, f',priority="{priority}"')
        for priority, value in (("1", 2), ("2", 3))
    )
    whole = ranks("num_queue_reqs", {(0, 0): 5}, ',priority=""')
    assert read_page(parts + whole).sample.waiting == measured(5)
    assert read_page(parts).sample.waiting == measured(5)


def test_live_tokens_count_before_those_of_ended_requests() -> None:
    live = "".join(
        ranks("realtime_tokens_total", {(0, 0): value, (0, 1): value}, f',mode="{mode}"')
        for mode, value in (("prefill_compute", 400), ("prefill_cache", 100), ("decode", 90))
    )
    ended = "sglang:prompt_tokens_total 300\nsglang:generation_tokens_total 50\n"
    got = read_page(ended + live).sample
    assert got.prompt_tokens_total == measured(500)
    assert got.generation_tokens_total == measured(90)
    assert got.steps_total == ABSENT


def test_without_live_tokens_the_pieces_of_answers_are_the_steps() -> None:
    got = read_page(
        "sglang:generation_tokens_total 50\nsglang:inter_token_latency_seconds_count 75\n"
    ).sample
    assert got.generation_tokens_total == measured(50)
    assert got.steps_total == measured(75)


@pytest.mark.parametrize("prefix", ["sglang:", "sglang_"])
@pytest.mark.parametrize("label", ["name", "model_name"])
@pytest.mark.parametrize(
    ("running", "waiting"),
    [("num_running_reqs", "num_queue_reqs"), ("num_requests_running", "num_requests_waiting")],
)
def test_names_of_several_versions(prefix: str, label: str, running: str, waiting: str) -> None:
    got = read_page(
        f'{prefix}max_total_num_tokens{{{label}="google/gemma-2-9b-it"}} 161721.0\n'
        f'{prefix}{running}{{{label}="google/gemma-2-9b-it"}} 9\n'
        f'{prefix}{waiting}{{{label}="google/gemma-2-9b-it"}} 2\n'
    ).sample
    assert (got.running, got.waiting) == (measured(9), measured(2))
    assert got.kv_pool_tokens == measured(161_721)


def test_a_server_that_starts_has_absent_signals_and_no_zeros() -> None:
    got = read_page("sglang:engine_startup_time 31.5\nsglang:num_running_reqs NaN\n").sample
    assert got.running == got.waiting == got.kv_usage == got.kv_pool_tokens == ABSENT
    assert got.prompt_tokens_total == ABSENT


def test_the_throughput_gauge_is_not_read() -> None:
    got = read_page("sglang:num_running_reqs 0\nsglang:gen_throughput 800\n").sample
    assert got.running == measured(0)
    assert got.generation_tokens_total == ABSENT


def test_a_description_alone_is_no_page() -> None:
    with pytest.raises(TelemetryError, match="not an SGLang metrics page"):
        read_page("# HELP sglang:num_running_reqs x\n")
