"""The metrics page of a fake engine under the names of vLLM 0.26."""

from __future__ import annotations

import time
from collections.abc import Iterator

from isocost.fake.engine import Engine
from isocost.fake.exposition import Histogram, Reading, head, line
from isocost.fake.kv_cache import BLOCK_TOKENS
from isocost.fake.sequence import Progress

# vLLM's own buckets.
_FIRST_TOKEN_S = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
]  # fmt: skip
_TOKEN_S = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
]  # fmt: skip
_REQUEST_S = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    240.0, 480.0, 960.0, 1920.0, 7680.0,
]  # fmt: skip
_REASONS = ("stop", "length", "abort", "error")


class VllmMetrics:
    """Labels as V1 has them: the engine's number and the served model."""

    def __init__(self, engine: Engine, number: int, model: str, reading: Reading) -> None:
        self._engine = engine
        self._number = {"engine": str(number)}
        self._labels = {**self._number, "model_name": model}
        self._reading = reading
        self._started_unix_s = time.time()
        self._finished = 0
        self._first_token = Histogram(_FIRST_TOKEN_S)
        self._gap = Histogram(_TOKEN_S)
        self._per_token = Histogram(_TOKEN_S)
        self._request = Histogram(_REQUEST_S)
        self._queue = Histogram(_REQUEST_S)

    def observe(self, progress: Progress) -> None:
        sequence = progress.sequence
        if progress.gap_s is None:
            self._first_token.observe(progress.at_s - sequence.submitted_s)
        else:
            self._gap.observe(progress.gap_s, progress.new_tokens)
        if not progress.finished:
            return
        self._finished += 1
        self._request.observe(progress.at_s - sequence.submitted_s)
        if sequence.scheduled_s is not None:
            self._queue.observe(sequence.scheduled_s - sequence.ready_s)
        if sequence.first_token_s is not None and progress.tokens > 1:
            decode_s = progress.at_s - sequence.first_token_s
            self._per_token.observe(decode_s / (progress.tokens - 1))

    def lines(self) -> Iterator[str]:
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()

    def _gauges(self) -> Iterator[str]:
        if self._number["engine"] == "0":
            # Without labels: all engines of a page have one.
            name = "process_start_time_seconds"
            yield from head(name, "gauge", "Start time of the process since unix epoch in seconds.")
            yield line(name, {}, self._started_unix_s)
        name = "vllm:cache_config_info"
        config = {"block_size": str(BLOCK_TOKENS), "enable_prefix_caching": "True"}
        config["num_gpu_blocks"] = str(self._engine.kv_blocks)
        yield from head(name, "gauge", "Information of the LLMEngine CacheConfig")
        yield line(name, {**config, **self._number}, 1)
        for key, name, text in (
            ("running", "vllm:num_requests_running", "Requests in model execution batches."),
            ("waiting", "vllm:num_requests_waiting", "Requests waiting to be processed."),
            ("kv_usage", "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
        ):
            value = self._reading(key)
            if value is None:
                continue
            yield from head(name, "gauge", text)
            yield line(name, self._labels, value)
            if key == "waiting":
                by_reason = f"{name}_by_reason"
                yield from head(by_reason, "gauge", "Requests waiting, by what keeps them.")
                yield line(by_reason, {**self._labels, "reason": "capacity"}, value)
                yield line(by_reason, {**self._labels, "reason": "deferred"}, 0)

    def _counters(self) -> Iterator[str]:
        engine = self._engine
        for name, text, total in (
            ("prefix_cache_queries", "Tokens queried.", engine.prefix_queries_total),
            ("prefix_cache_hits", "Tokens found.", engine.prefix_hits_total),
            ("num_preemptions", "Preemptions.", engine.preemptions_total),
            ("prompt_tokens", "Prefill tokens processed.", engine.prompt_tokens_total),
            ("generation_tokens", "Generation tokens.", engine.generation_tokens_total),
        ):
            full = f"vllm:{name}_total"
            yield from head(full, "counter", text)
            yield line(full, self._labels, total)
        full = "vllm:request_success_total"
        yield from head(full, "counter", "Requests that ended properly.")
        for reason in _REASONS:
            count = self._finished if reason == "length" else 0
            yield line(full, {**self._labels, "finished_reason": reason}, count)

    def _histograms(self) -> Iterator[str]:
        for name, text, histogram in (
            ("time_to_first_token", "Time to first token.", self._first_token),
            ("inter_token_latency", "Time between tokens.", self._gap),
            ("request_time_per_output_token", "Its mean by request.", self._per_token),
            ("e2e_request_latency", "Request latency.", self._request),
            ("request_queue_time", "Time in the queue.", self._queue),
        ):
            full = f"vllm:{name}_seconds"
            yield from head(full, "histogram", text)
            yield from histogram.lines(full, self._labels)
