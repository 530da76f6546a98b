"""vLLM's pages of several versions, and of several engines, as one sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from isocost.errors import TelemetryError
from isocost.model import ABSENT, measured
from isocost.telemetry.engines.vllm import (
    CACHE_CONFIG,
    GENERATION_TOKENS,
    KV_USAGE,
    LATENCIES,
    PROMPT_TOKENS,
    RUNNING,
    WAITING,
    read_page,
)

PAGES = Path(__file__).parents[2] / "data" / "metrics-vllm"


def page(file: str) -> str:
    return (PAGES / file).read_text()


def test_the_page_of_early_2024() -> None:
    got = read_page(page("vllm-0.2-era-mistral-7b-partial.txt"))
    assert got.sample.kv_usage == measured(0.38849487785658)
    assert got.sample.running == ABSENT and got.sample.kv_pool_tokens == ABSENT
    assert got.started_unix_s is None


def test_the_page_of_0_4_3() -> None:
    got = read_page(page("vllm-0.4.3-opt-125m.txt"))
    assert got.sample.running == measured(0) and got.sample.waiting == measured(0)
    assert got.sample.kv_usage == measured(0)
    assert got.sample.kv_pool_tokens == measured(16 * 7281)
    assert got.sample.prompt_tokens_total == measured(5)
    assert got.sample.generation_tokens_total == measured(7)
    assert got.started_unix_s == 1718140558.3


def test_the_page_of_the_v1_engine_tells_its_start_by_its_oldest_counter() -> None:
    got = read_page(page("vllm-v1-qwen3-0.6b.txt"))
    assert got.sample.kv_usage == measured(0)
    assert got.sample.prompt_tokens_total == measured(66)
    assert got.sample.generation_tokens_total == measured(600)
    assert got.sample.running == ABSENT
    assert got.started_unix_s == 1768264339.889982


def test_counts_of_several_engines_add_up_and_shares_are_averaged() -> None:
    got = read_page(
        'vllm:num_requests_running{engine="0"} 3\n'
        'vllm:num_requests_running{engine="1"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.4\n'
        'vllm:kv_cache_usage_perc{engine="1"} 0.6\n'
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",engine="0"} 1\n'
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",engine="1"} 1\n'
    ).sample
    assert got.running == measured(7)
    assert got.kv_usage == measured(0.5)
    assert got.kv_pool_tokens == measured(3200)


def test_shares_of_pools_of_different_sizes_count_by_their_tokens() -> None:
    got = read_page(
        'vllm:kv_cache_usage_perc{engine="0"} 0.9\n'
        'vllm:kv_cache_usage_perc{engine="1"} 0.1\n'
        'vllm:cache_config_info{block_size="10",num_gpu_blocks="100",engine="0"} 1\n'
        'vllm:cache_config_info{block_size="10",num_gpu_blocks="300",engine="1"} 1\n'
    ).sample
    assert got.kv_usage.value == pytest.approx(0.3)
    assert got.kv_pool_tokens == measured(4000)


def test_every_name_of_now_is_one_of_0_26() -> None:
    families = dict(
        line.split() for line in page("vllm-0.26.0-families.txt").splitlines() if line[0] != "#"
    )
    for names in (RUNNING, WAITING, KV_USAGE, CACHE_CONFIG):
        assert families[names[0]] == "gauge"
    for names in (PROMPT_TOKENS, GENERATION_TOKENS):
        assert families[names[0]] == "counter"
    for names in (LATENCIES.first_token, LATENCIES.per_token, LATENCIES.queue, LATENCIES.request):
        assert families[names[0]] == "histogram"


def test_an_old_name_beside_the_new_one_is_not_added() -> None:
    got = read_page("vllm:gpu_cache_usage_perc 0.4\nvllm:kv_cache_usage_perc 0.3\n").sample
    assert got.kv_usage == measured(0.3)


def test_waiting_by_reason_is_not_counted_again() -> None:
    got = read_page(
        'vllm:num_requests_waiting 5\nvllm:num_requests_waiting_by_reason{reason="capacity"} 5\n'
    ).sample
    assert got.waiting == measured(5)


def test_a_share_above_one_is_one_and_what_is_no_number_is_absent() -> None:
    got = read_page(
        "vllm:kv_cache_usage_perc 1.02\nvllm:num_requests_running NaN\n"
        "vllm:num_requests_waiting -1\n"
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n'
    ).sample
    assert got.kv_usage == measured(1.0)
    assert got.running == ABSENT and got.waiting == ABSENT and got.kv_pool_tokens == ABSENT


@pytest.mark.parametrize("blocks", ["9" * 400, "9" * 5000, "1" + "0" * 12])
def test_a_pool_that_cannot_be_costs_that_value_only(blocks: str) -> None:
    got = read_page(
        f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}"}} 1\n'
        "vllm:num_requests_running 3\n"
    ).sample
    assert got.running == measured(3) and got.kv_pool_tokens == ABSENT


def test_a_sum_that_is_no_number_is_absent() -> None:
    got = read_page('vllm:num_requests_running{engine="0"} 1e308\n' * 2).sample
    assert got.running == ABSENT


def test_a_start_that_cannot_be_is_not_told() -> None:
    got = read_page("vllm:num_requests_running 3\nprocess_start_time_seconds 1e300\n")
    assert got.started_unix_s is None


@pytest.mark.parametrize(
    "text", ["", "<html>log in</html>", "process_start_time_seconds 17\nup 1\n"]
)
def test_another_page_is_an_error_and_not_an_idle_engine(text: str) -> None:
    with pytest.raises(TelemetryError, match="not a vLLM metrics page"):
        read_page(text)


@pytest.mark.parametrize(("told", "usage"), [(1.0, 1.0), (1.1, 1.0), (1.2, None), (45.0, None)])
def test_a_usage_far_above_one_is_no_share(told: float, usage: float | None) -> None:
    """A percentage would be a cache that is always full."""
    pools = "".join(
        f'vllm:cache_config_info{{engine="{engine}",num_gpu_blocks="9",block_size="16"}} 1.0\n'
        for engine in (0, 1)
    )
    one = f"vllm:num_requests_running 3\nvllm:kv_cache_usage_perc {told}\n"
    two = f'{pools}vllm:kv_cache_usage_perc{{engine="0"}} {told}\n'
    two += f'vllm:kv_cache_usage_perc{{engine="1"}} {told}\n'
    for page in (one, two):
        assert read_page(page).sample.kv_usage == (ABSENT if usage is None else measured(usage))
    assert read_page(one).sample.running == measured(3)
