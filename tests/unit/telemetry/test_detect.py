"""A page is recognised by what is on it."""

from __future__ import annotations

import pytest

from isocost.errors import TelemetryError
from isocost.model import EngineSample
from isocost.telemetry.engines.detect import read_engine_page, read_latencies
from isocost.telemetry.engines.histogram import quantile
from tests.unit.telemetry.pages import recorded
from tests.unit.telemetry.test_tgi import PAGE as TGI_PAGE


@pytest.mark.parametrize(
    ("page", "engine"),
    [
        (recorded("vllm", "vllm-0.2-era-mistral-7b-partial.txt"), "vllm"),
        (recorded("vllm", "vllm-0.4.3-opt-125m.txt"), "vllm"),
        (recorded("vllm", "vllm-v1-qwen3-0.6b.txt"), "vllm"),
        (recorded("sglang", "sglang-idle-llama31-8b.txt"), "sglang"),
        (recorded("sglang", "sglang-saturated-llama31-8b.txt"), "sglang"),
        (TGI_PAGE, "tgi"),
        (recorded("triton", "triton-trtllm.txt"), "triton"),
    ],
)
def test_every_recorded_page_is_recognised(page: str, engine: str) -> None:
    assert read_engine_page(page).engine == engine
    assert read_engine_page(page).sample != EngineSample()


def test_vllm_behind_triton_is_read_as_vllm() -> None:
    page = 'nv_inference_count{model="m",version="1"} 3\nvllm:num_requests_running 2\n'
    assert read_engine_page(page).engine == "vllm"


def test_a_name_inside_a_label_or_a_comment_recognises_nothing() -> None:
    page = 'tgi_queue_size{model="vllm:num_requests_running"} 1\n# HELP vllm:x\n'
    assert read_engine_page(page).engine == "tgi"


def test_an_empty_page_is_an_engine_that_counted_nothing_yet() -> None:
    got = read_engine_page("\n")
    assert got.sample == EngineSample() and got.engine == ""


@pytest.mark.parametrize("page", ["<html>log in</html>", "up 1\n", '{"gpus": []}'])
def test_another_page_is_an_error_and_not_an_idle_engine(page: str) -> None:
    with pytest.raises(TelemetryError, match="not a metrics page of vLLM, SGLang, TGI or Triton"):
        read_engine_page(page)
    with pytest.raises(TelemetryError):
        read_latencies(page)


def test_latencies_of_the_recorded_pages() -> None:
    old = read_latencies(recorded("vllm", "vllm-0.4.3-opt-125m.txt"))
    assert old.first_token_s is not None and old.first_token_s.count == 1
    assert 0.25 < quantile(old.first_token_s, 0.5).value < 0.5
    assert old.queue_s is None
    busy = read_latencies(recorded("sglang", "sglang-saturated-llama31-8b.txt"))
    assert busy.first_token_s is not None and busy.first_token_s.count == 11_008
    # 1,970 of 11,008 were served within 15 s and more than half not within 30 s.
    assert quantile(busy.first_token_s, 1970 / 11_008).value == pytest.approx(15.0)
    assert quantile(busy.first_token_s, 0.5).value == 30.0
    assert busy.per_token_s is not None and busy.per_token_s.count == 7_400_757
    assert busy.request_s is not None and busy.request_s.count == 11_228


def test_milliseconds_become_seconds() -> None:
    got = read_latencies(
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="100"} 4\n'
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="+Inf"} 4\n'
    )
    assert got.first_token_s is not None
    assert quantile(got.first_token_s, 1.0).value == pytest.approx(0.1)


@pytest.mark.parametrize("page", ["vllm:num_requests_running 1", "tgi_queue_size 1\ntgi_batch"])
def test_a_page_without_its_last_line_feed_was_cut_off(page: str) -> None:
    with pytest.raises(TelemetryError, match="cut off"):
        read_engine_page(page)
