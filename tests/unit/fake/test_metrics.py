"""The metrics pages: the names of the real engines, and numbers that are true to the load."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isocost.fake.engine import Engine
from isocost.fake.exposition import Histogram, line
from isocost.fake.metrics import NodeMetrics
from isocost.fake.settings import METRICS
from isocost.fake.speeds import Speed
from isocost.telemetry.engines.detect import read_engine_page
from isocost.telemetry.engines.vllm import read_page
from tests.unit.fake.engines import conversation, submit

DATA = Path(__file__).parents[2] / "data"
#: 100 ms in the frontend, then 10 ms a step.
SPEED = Speed(0.1, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0)
MODEL = 'meta/"8B"'


class Bench:
    """An engine with one place, and its page, on a clock that the test turns."""

    def __init__(self, kind: str, max_num_seqs: int = 1) -> None:
        self.now_s = 0.0
        self.readings: dict[str, float | None] = {}
        self.engine = Engine(SPEED, 64, max_num_seqs)
        self.metrics = NodeMetrics(kind, {MODEL: self.engine}, self._reading, lambda: self.now_s)

    def _reading(self, _: Engine, key: str) -> float | None:
        plain = {"running": self.engine.running, "waiting": self.engine.waiting}
        return {**plain, "kv_usage": self.engine.kv_usage, **self.readings}[key]

    def at(self, now_s: float) -> dict[str, float]:
        """Every series of the page, without its model."""
        self.now_s = now_s
        for progress in self.engine.advance(now_s):
            self.metrics.observe(self.engine, progress)
        series = {}
        for family in text_string_to_metric_families(self.metrics.page().decode()):
            for sample in family.samples:
                labels = {**sample.labels}
                if sample.name.startswith(("vllm:", "sglang:")) and "info" not in sample.name:
                    assert labels.pop("model_name") == MODEL
                labels.pop("engine", None)
                inside = ",".join(labels.values())
                series[f"{sample.name}[{inside}]" if inside else sample.name] = sample.value
        return series


def types(page: str) -> dict[str, str]:
    rows = (row.split() for row in page.splitlines() if row.startswith("# TYPE"))
    return {name: kind for _, _, name, kind in rows}


def test_vllm_s_names_and_types_are_those_of_its_current_version() -> None:
    text = (DATA / "metrics-vllm" / "vllm-0.26.0-families.txt").read_text()
    known = dict(row.split() for row in text.splitlines() if not row.startswith("#"))
    ours = types(Bench("vllm").metrics.page().decode())
    assert ours.pop("process_start_time_seconds") == "gauge"
    assert ours.items() <= known.items()
    assert {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_requests_waiting_by_reason",
        "vllm:kv_cache_usage_perc",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:num_preemptions_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:request_time_per_output_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:cache_config_info",
    } == ours.keys()


def test_sglang_s_names_types_and_labels_are_those_of_its_documentation() -> None:
    real = (DATA / "metrics-sglang" / "sglang-saturated-llama31-8b.txt").read_text()
    known = types(real)
    # The latency of its own functions says nothing about requests.
    del known["sglang:func_latency_seconds"]
    page = Bench("sglang").metrics.page().decode()
    assert types(page) == known

    def bounds(text: str, name: str) -> list[float]:
        return [
            float(sample.labels["le"])
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"sglang:{name}_bucket"
        ]

    for name in ("time_to_first_token", "time_per_output_token", "e2e_request_latency"):
        ours = bounds(page, f"{name}_seconds")
        assert ours and ours == bounds(real, f"{name}_seconds")


def test_vllm_tells_what_happened() -> None:
    bench = Bench("vllm")
    submit(bench.engine, 0.0, conversation(1, 160), 21)
    submit(bench.engine, 0.0, conversation(1, 160), 21)
    page = bench.at(0.25)
    assert page["vllm:num_requests_running"] == page["vllm:num_requests_waiting"] == 1
    assert page["vllm:num_requests_waiting_by_reason[capacity]"] == 1
    assert page["vllm:kv_cache_usage_perc"] == 11 / 64
    # The first token after 110 ms.
    assert page["vllm:time_to_first_token_seconds_sum"] == pytest.approx(0.11)
    assert page["vllm:time_to_first_token_seconds_bucket[0.1]"] == 0
    assert page["vllm:time_to_first_token_seconds_bucket[0.25]"] == 1
    page = bench.at(5.0)
    assert page["vllm:request_success_total[length]"] == 2
    assert page["vllm:request_success_total[abort]"] == 0
    assert page["vllm:prompt_tokens_total"] == 320
    assert page["vllm:generation_tokens_total"] == 42
    assert page["vllm:prefix_cache_queries_total"] == 320
    assert page["vllm:prefix_cache_hits_total"] == 144
    assert page["vllm:num_preemptions_total"] == 0
    # 20 gaps of 10 ms each, although they were reported in seven pieces.
    assert page["vllm:inter_token_latency_seconds_count"] == 40
    assert page["vllm:inter_token_latency_seconds_sum"] == pytest.approx(0.4)
    assert page["vllm:request_time_per_output_token_seconds_sum"] == pytest.approx(0.02)
    assert page["vllm:e2e_request_latency_seconds_sum"] == pytest.approx(0.31 + 0.52)
    # The second waited for the first to end.
    assert page["vllm:request_queue_time_seconds_sum"] == pytest.approx(0.21)
    assert page["vllm:request_queue_time_seconds_count"] == 2


def test_vllm_counts_preemptions() -> None:
    bench = Bench("vllm", max_num_seqs=2)
    submit(bench.engine, 0.0, 480, 200)
    submit(bench.engine, 0.0, 480, 200)
    assert bench.at(60.0)["vllm:num_preemptions_total"] == 1


def test_the_agent_reads_vllm_s_page() -> None:
    bench = Bench("vllm")
    submit(bench.engine, 0.0, 160, 21)
    bench.at(5.0)
    read = read_page(bench.metrics.page().decode())
    assert read.sample.kv_pool_tokens.value == 1024
    assert read.sample.prompt_tokens_total.value == 160
    assert read.sample.generation_tokens_total.value == 21
    assert read.sample.running.value == read.sample.waiting.value == 0
    assert read.started_unix_s == pytest.approx(time.time(), abs=60)


def test_the_agent_reads_sglang_s_page() -> None:
    bench = Bench("sglang")
    submit(bench.engine, 0.0, 160, 21)
    bench.at(5.0)
    read = read_engine_page(bench.metrics.page().decode())
    assert read.engine == "sglang"
    assert read.sample.prompt_tokens_total.value == 160
    assert read.sample.generation_tokens_total.value == 21
    assert read.sample.running.value == read.sample.waiting.value == 0
    assert read.sample.kv_usage.value == bench.engine.kv_usage


def test_sglang_tells_what_happened() -> None:
    bench = Bench("sglang")
    submit(bench.engine, 0.0, conversation(1, 160), 201)
    submit(bench.engine, 0.0, conversation(1, 160), 21)
    page = bench.at(1.0)
    assert page["sglang:num_running_reqs"] == page["sglang:num_queue_reqs"] == 1
    assert page["sglang:token_usage"] == bench.engine.kv_usage > 0
    assert page["sglang:num_used_tokens"] == bench.engine.kv_used_blocks * 16
    assert page["sglang:gen_throughput"] == pytest.approx(90)
    assert page["sglang:cache_hit_rate"] == 0
    page = bench.at(9.0)
    assert page["sglang:cache_hit_rate"] == pytest.approx(144 / 320)
    assert page["sglang:prompt_tokens_total"] == 320
    assert page["sglang:generation_tokens_total"] == 222
    assert page["sglang:time_to_first_token_seconds_count"] == 2
    assert page["sglang:time_per_output_token_seconds_count"] == 220
    assert page["sglang:time_per_output_token_seconds_sum"] == pytest.approx(2.2)
    assert page["sglang:e2e_request_latency_seconds_count"] == 2
    assert bench.at(20.0)["sglang:gen_throughput"] == 0


@pytest.mark.parametrize("kind", METRICS)
def test_an_ordered_absence_leaves_the_gauge_out(kind: str) -> None:
    bench = Bench(kind)
    before = set(bench.at(0.0))
    bench.readings = {"waiting": None, "kv_usage": None}
    gone = before - set(bench.at(0.0))
    assert all("wait" in name or "queue" in name or "us" in name for name in gone)
    assert len(gone) == 4 if kind == "vllm" else 3


def test_a_histogram_counts_up_to_and_with_each_bound() -> None:
    histogram = Histogram((0.5, 1.0))
    histogram.observe(0.5)
    histogram.observe(0.75, times=3)
    histogram.observe(9.0)
    assert list(histogram.lines("h", {"a": "b"})) == [
        'h_bucket{le="0.5",a="b"} 1.0',
        'h_bucket{le="1.0",a="b"} 4.0',
        'h_bucket{le="+Inf",a="b"} 5.0',
        'h_count{a="b"} 5.0',
        'h_sum{a="b"} 11.75',
    ]


def test_labels_are_escaped() -> None:
    assert line("x", {"m": 'a"b\\c\nd'}, 1) == 'x{m="a\\"b\\\\c\\nd"} 1.0'
