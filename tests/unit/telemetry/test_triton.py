"""Triton's pages: with TensorRT-LLM of several versions, and with another backend."""

from __future__ import annotations

import pytest

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, measured
from isocost.telemetry.engines.triton import read_page
from tests.unit.telemetry.pages import recorded

PAGE = recorded("triton", "triton-trtllm.txt")


def test_the_page_with_tensorrt_llm() -> None:
    got = read_page(PAGE)
    assert got.sample.running == measured(1)
    assert got.sample.waiting == measured(1)
    assert got.sample.kv_usage == measured(0.4875)
    assert got.sample.kv_pool_tokens == measured(64 * 6239)
    assert got.sample.steps_total == measured(0)
    # This version counts no tokens: those of its batchers are of one iteration.
    assert got.sample.prompt_tokens_total == got.sample.generation_tokens_total == UNSUPPORTED
    assert got.started_unix_s is None
    assert got.engine == "triton"


def test_its_first_versions_tell_no_queue_and_triton_s_own_is_not_believed() -> None:
    lines = PAGE.replace("_metrics{", "_statistics{").splitlines()
    page = "\n".join(line for line in lines if "waiting" not in line and "fraction" not in line)
    got = read_page(page).sample
    assert got.running == measured(1)
    assert got.waiting == UNSUPPORTED
    assert got.kv_usage == measured(1 / 6239)
    assert got.kv_pool_tokens == measured(64 * 6239)


def test_new_versions_count_the_tokens_of_ended_requests() -> None:
    got = read_page(
        PAGE + 'nv_llm_input_token_len_sum{model="tensorrt_llm",version="1",'
        'response_metric_type="total_input_tokens"} 900\n'
        'nv_llm_output_token_len_sum{model="tensorrt_llm",version="1",'
        'response_metric_type="total_output_tokens"} 70\n'
    ).sample
    assert got.prompt_tokens_total == measured(900)
    assert got.generation_tokens_total == measured(70)
    assert got.steps_total == measured(0)


def test_another_backend_tells_its_queue_only() -> None:
    got = read_page(
        'nv_inference_count{model="a",version="1"} 12\n'
        'nv_inference_pending_request_count{model="a",version="1"} 3\n'
        'nv_inference_pending_request_count{model="b",version="1"} 4\n'
    ).sample
    assert got.waiting == measured(7)
    assert got.running == got.kv_usage == got.kv_pool_tokens == got.steps_total == UNSUPPORTED


def test_pools_of_several_models_count_by_their_size() -> None:
    got = read_page(
        "".join(
            f'nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="{kind}",model="{model}",'
            f'version="1"}} {value}\n'
            for model, blocks, used in (("a", 100, 0.9), ("max", 300, 0.1))
            for kind, value in (("tokens_per", 10), ("max", blocks), ("fraction", used))
        )
    ).sample
    assert got.kv_pool_tokens == measured(4000)
    assert got.kv_usage.value == pytest.approx(0.3)
    assert got.running == ABSENT


def test_a_page_of_gpus_alone_is_no_engine_s() -> None:
    with pytest.raises(TelemetryError, match="not a Triton metrics page"):
        read_page('nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5\n')
