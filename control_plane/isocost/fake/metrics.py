"""The fake engine's metrics page, under the names of vLLM 0.26."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from isocost.fake.cards import BLOCK_TOKENS
from isocost.fake.engine import Engine, Progress

_LABELS = ["engine", "model_name"]
_GAUGES = (
    ("running", "vllm:num_requests_running", "Requests in model execution batches."),
    ("waiting", "vllm:num_requests_waiting", "Requests waiting to be processed."),
    ("kv_usage", "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
)
# vLLM's own buckets, thinned where no fake node ever comes.
_FIRST_TOKEN_BUCKETS = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)
_TOKEN_BUCKETS = (0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.5)
_REQUEST_BUCKETS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240)


class _EngineCollector(Collector):
    """Reads the engine at the scrape: its own counts are the only ones."""

    def __init__(self, engine: Engine, model: str, reading: Callable[[str], float | None]) -> None:
        self._engine = engine
        self._labels = ["0", model]
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        for key, name, text in _GAUGES:
            value = self._reading(key)
            if value is not None:
                gauge = GaugeMetricFamily(name, text, labels=_LABELS)
                gauge.add_metric(self._labels, value)
                yield gauge
        for name, text, total in (
            ("vllm:prompt_tokens", "Prefill tokens.", self._engine.prompt_tokens_total),
            ("vllm:generation_tokens", "Generated tokens.", self._engine.generation_tokens_total),
        ):
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            counter.add_metric(self._labels, total)
            yield counter


class EngineMetrics:
    """``reading`` gives a gauge's value or None; see FakeTelemetry.engine_reading."""

    def __init__(self, engine: Engine, model: str, reading: Callable[[str], float | None]) -> None:
        self._registry = registry = CollectorRegistry()
        labels = ("0", model)
        registry.register(_EngineCollector(engine, model, reading))
        Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            ["block_size", "num_gpu_blocks", "engine", "model_name"],
            registry=registry,
        ).labels(BLOCK_TOKENS, engine.kv_pool_tokens // BLOCK_TOKENS, *labels).set(1)
        Gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            registry=registry,
        ).set(time.time())
        self._success = Counter(
            "vllm:request_success",
            "Requests that ended properly.",
            [*_LABELS, "finished_reason"],
            registry=registry,
        ).labels(*labels, "length")

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, _LABELS, buckets=buckets, registry=registry).labels(
                *labels
            )

        self._first_token = histogram(
            "vllm:time_to_first_token_seconds", "Time to first token.", _FIRST_TOKEN_BUCKETS
        )
        self._per_token = histogram(
            "vllm:request_time_per_output_token_seconds",
            "Mean time per output token of a request.",
            _TOKEN_BUCKETS,
        )
        self._request = histogram(
            "vllm:e2e_request_latency_seconds", "Request latency.", _REQUEST_BUCKETS
        )

    def observe(self, progress: Progress) -> None:
        sequence, tokens = progress.sequence, progress.tokens
        since_s = progress.at_s - sequence.submitted_s
        if tokens == 1:
            self._first_token.observe(since_s)
        if progress.finished:
            self._success.inc()
            self._request.observe(since_s)
            if sequence.first_token_s is not None and tokens > 1:
                self._per_token.observe((progress.at_s - sequence.first_token_s) / (tokens - 1))

    def page(self) -> bytes:
        return generate_latest(self._registry)
