"""Triton's metrics page as an EngineSample: any backend's queue, and all of TensorRT-LLM's.

(Triton with the vLLM backend has vLLM's series and is read as vLLM.)
"""

from __future__ import annotations

from collections.abc import Sequence

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, EngineSample, Signal
from isocost.telemetry.engines.exposition import PageReader, Point
from isocost.telemetry.engines.histogram import LatencyNames
from isocost.telemetry.engines.page import (
    EnginePage,
    Found,
    has_series,
    is_usable,
    or_unsupported,
    series,
    share,
    started,
    total,
    usable,
)

#: Not nv_gpu_: that alone is no engine.
PREFIXES = ("nv_inference_", "nv_trt_llm_", "nv_llm_")
#: Newest name first. The first versions of the TensorRT-LLM backend said statistics.
REQUESTS = ("nv_trt_llm_request_metrics", "nv_trt_llm_request_statistics")
KV_BLOCKS = ("nv_trt_llm_kv_cache_block_metrics", "nv_trt_llm_kv_cache_block_statistics")
GENERAL = ("nv_trt_llm_general_metrics", "nv_trt_llm_general_statistics")
#: Requests wait in one place at a time, so that the models of an ensemble may be added.
PENDING = ("nv_inference_pending_request_count",)
#: Lengths of the requests that ended: their sums are the tokens.
PROMPT_TOKENS = ("nv_llm_input_token_len_sum",)
GENERATION_TOKENS = ("nv_llm_output_token_len_sum",)
_BLOCK = "kv_cache_block_type"
STARTED = ("process_start_time_seconds",)
#: To the first piece of an answer, where histograms are switched on.
LATENCIES = LatencyNames(first_token_ms=("nv_inference_first_response_histogram_ms",))
_READER = PageReader(
    (
        *REQUESTS,
        *KV_BLOCKS,
        *GENERAL,
        *PENDING,
        *PROMPT_TOKENS,
        *GENERATION_TOKENS,
        *STARTED,
    )
)


def read_page(page: str) -> EnginePage:
    """TelemetryError: the page has nothing of Triton's."""
    if not has_series(page, PREFIXES):
        raise TelemetryError("not a Triton metrics page")
    found = _READER.read(page)
    requests, blocks = series(found, REQUESTS), series(found, KV_BLOCKS)
    running = _first_of(requests, "request_type", "scheduled", "active")
    usage, pool = _kv_cache(blocks)
    if not requests and not blocks:
        # Another backend, which never tells this.
        running, usage, pool = UNSUPPORTED, UNSUPPORTED, UNSUPPORTED
    steps = _first_of(series(found, GENERAL), "general_type", "iteration_counter")
    return EnginePage(
        EngineSample(
            running=running,
            waiting=_waiting(found, requests),
            kv_usage=usage,
            kv_pool_tokens=pool,
            prompt_tokens_total=or_unsupported(total(usable(series(found, PROMPT_TOKENS)))),
            generation_tokens_total=or_unsupported(total(usable(series(found, GENERATION_TOKENS)))),
            steps_total=or_unsupported(steps),
        ),
        started(series(found, STARTED)),
        "triton",
    )


def _waiting(found: Found, requests: Sequence[Point]) -> Signal:
    """TensorRT-LLM takes requests off Triton's queue at once and has its own; its first versions
    do not tell it, and Triton's is 0 there whatever waits.
    """
    if requests:
        return or_unsupported(_first_of(requests, "request_type", "waiting"))
    return total(usable(series(found, PENDING)))


def _kv_cache(points: Sequence[Point]) -> tuple[Signal, Signal]:
    """Usage and tokens of the pools of all models."""
    per_block, blocks = _by_model(points, _BLOCK, "tokens_per"), _by_model(points, _BLOCK, "max")
    pools = {model: blocks[model] * per_block[model] for model in blocks if model in per_block}
    usages = _by_model(points, _BLOCK, "fraction")
    for model, count in _by_model(points, _BLOCK, "used").items():
        if model not in usages and blocks.get(model, 0) > 0:
            usages[model] = count / blocks[model]
    usage = share([(value, pools.get(model)) for model, value in usages.items()])
    return usage, total([tokens for tokens in pools.values() if tokens > 0])


def _first_of(points: Sequence[Point], label: str, *kinds: str) -> Signal:
    """All models' sum of the first of ``kinds`` that is told."""
    for kind in kinds:
        signal = total(list(_by_model(points, label, kind).values()))
        if signal.known:
            return signal
    return ABSENT


def _by_model(points: Sequence[Point], label: str, kind: str) -> dict[tuple[str, str], float]:
    return {
        (point.labels.get("model", ""), point.labels.get("version", "")): point.value
        for point in points
        if point.labels.get(label) == kind and is_usable(point.value)
    }
