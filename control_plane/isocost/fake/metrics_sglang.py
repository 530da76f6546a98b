"""The metrics page of a fake engine under the names of SGLang."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isocost.fake.engine import Engine
from isocost.fake.exposition import Histogram, Reading, head, line
from isocost.fake.kv_cache import BLOCK_TOKENS
from isocost.fake.sequence import Progress
from isocost.fake.window import Window

#: SGLang tells the throughput of its last 40 decode steps: about a second.
THROUGHPUT_WINDOW_S = 1.0
# SGLang's own buckets.
_FIRST_TOKEN_S = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    15.0, 20.0, 25.0, 30.0,
]  # fmt: skip
_TOKEN_S = [
    0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
    1.0, 2.5,
]  # fmt: skip
_REQUEST_S = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
]  # fmt: skip


class SglangMetrics:
    """``clock`` is the engine's: gen_throughput is a rate over time."""

    def __init__(
        self, engine: Engine, model: str, reading: Reading, clock: Callable[[], float]
    ) -> None:
        self._engine = engine
        self._labels = {"model_name": model}
        self._reading = reading
        self._clock = clock
        self._throughput = Window(THROUGHPUT_WINDOW_S, clock())
        self._first_token = Histogram(_FIRST_TOKEN_S)
        self._gap = Histogram(_TOKEN_S)
        self._request = Histogram(_REQUEST_S)

    def observe(self, progress: Progress) -> None:
        since_s = progress.at_s - progress.sequence.submitted_s
        if progress.gap_s is None:
            self._first_token.observe(since_s)
        else:
            self._gap.observe(progress.gap_s, progress.new_tokens)
        if progress.finished:
            self._request.observe(since_s)

    def lines(self) -> Iterator[str]:
        yield from self._numbers()
        yield from self._histograms()

    def _numbers(self) -> Iterator[str]:
        engine = self._engine
        queried = engine.prefix_queries_total
        usage = self._reading("kv_usage")
        pool_tokens = engine.kv_blocks * BLOCK_TOKENS
        generated = engine.generation_tokens_total
        for name, kind, text, value in (
            ("prompt_tokens_total", "counter", "Prefill tokens.", engine.prompt_tokens_total),
            ("generation_tokens_total", "counter", "Generation tokens.", generated),
            ("num_running_reqs", "gauge", "Running requests.", self._reading("running")),
            ("num_queue_reqs", "gauge", "Waiting requests.", self._reading("waiting")),
            ("token_usage", "gauge", "The token usage", usage),
            (
                "num_used_tokens",
                "gauge",
                "The number of used tokens",
                None if usage is None else round(usage * pool_tokens),
            ),
            (
                "cache_hit_rate",
                "gauge",
                "The cache hit rate",
                engine.prefix_hits_total / queried if queried else 0.0,
            ),
            (
                "gen_throughput",
                "gauge",
                "The generate throughput (token/s)",
                self._throughput.rate(self._clock(), float(generated)),
            ),
        ):
            if value is not None:
                yield from head(f"sglang:{name}", kind, text)
                yield line(f"sglang:{name}", self._labels, value)

    def _histograms(self) -> Iterator[str]:
        for name, text, histogram in (
            ("time_to_first_token", "Time to first token.", self._first_token),
            ("time_per_output_token", "Time between tokens.", self._gap),
            ("e2e_request_latency", "Request latency.", self._request),
        ):
            full = f"sglang:{name}_seconds"
            yield from head(full, "histogram", text)
            yield from histogram.lines(full, self._labels)
