"""TGI's page, written as its exporter writes it."""

from __future__ import annotations

import csv

import pytest

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, measured
from isocost.telemetry.engines import tgi
from isocost.telemetry.engines.tgi import read_page
from tests.unit.telemetry.pages import DATA

PAGE = """\
# TYPE tgi_request_count counter
tgi_request_count 42

# TYPE tgi_batch_inference_count counter
tgi_batch_inference_count{method="prefill"} 40
tgi_batch_inference_count{method="decode"} 2600

# TYPE tgi_queue_size gauge
tgi_queue_size 5

# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 8

# TYPE tgi_batch_current_max_tokens gauge
tgi_batch_current_max_tokens 9216

# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_bucket{le="128"} 20
tgi_request_generated_tokens_bucket{le="+Inf"} 34
tgi_request_generated_tokens_sum 5100
tgi_request_generated_tokens_count 34

# TYPE tgi_request_input_length histogram
tgi_request_input_length_bucket{le="40.96"} 3
tgi_request_input_length_bucket{le="+Inf"} 34
tgi_request_input_length_sum 17000
tgi_request_input_length_count 34
"""


def test_load_comes_from_gauges_and_tokens_from_the_lengths_of_ended_requests() -> None:
    got = read_page(PAGE)
    assert got.sample.running == measured(8)
    assert got.sample.waiting == measured(5)
    assert got.sample.prompt_tokens_total == measured(17_000)
    assert got.sample.generation_tokens_total == measured(5_100)
    assert got.engine == "tgi" and got.started_unix_s is None


def test_it_has_no_gauge_of_its_kv_cache_and_that_is_not_zero() -> None:
    got = read_page(PAGE).sample
    assert got.kv_usage == got.kv_pool_tokens == UNSUPPORTED


def test_runs_of_both_methods_are_the_steps() -> None:
    assert read_page(PAGE).sample.steps_total == measured(2640)
    assert read_page("tgi_queue_size 1\n").sample.steps_total == UNSUPPORTED


def test_what_was_not_written_yet_is_absent() -> None:
    got = read_page("tgi_queue_size 1\n").sample
    assert got.waiting == measured(1)
    assert got.running == got.prompt_tokens_total == got.generation_tokens_total == ABSENT


def test_every_name_is_one_of_its_documentation() -> None:
    with (DATA / "metrics-tgi" / "tgi-families.csv").open() as file:
        families = {row["name"]: row["type"] for row in csv.DictReader(file)}
    for name in (*tgi.RUNNING, *tgi.WAITING):
        assert families[name] == "gauge"
    for name in tgi.STEPS:
        assert families[name] == "counter"
    for name in (*tgi.PROMPT_TOKENS, *tgi.GENERATION_TOKENS):
        assert families[name.removesuffix("_sum")] == "histogram"
    for name in (*tgi.LATENCIES.per_token, *tgi.LATENCIES.queue, *tgi.LATENCIES.request):
        assert families[name] == "histogram"


def test_another_page_is_none() -> None:
    with pytest.raises(TelemetryError, match="not a TGI metrics page"):
        read_page("# HELP tgi_queue_size x\nother_tgi_queue_size 1\n")
