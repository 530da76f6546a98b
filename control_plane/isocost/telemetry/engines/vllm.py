"""vLLM's metrics page, old names and new, as an EngineSample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isocost.errors import TelemetryError
from isocost.model import ABSENT, EngineSample, Signal, measured
from isocost.telemetry.engines.exposition import PageReader, Point

#: Newest name first. When a page has several, the first one counts: they are the same thing.
RUNNING = ("vllm:num_requests_running",)
WAITING = ("vllm:num_requests_waiting",)
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
PROMPT_TOKENS = ("vllm:prompt_tokens_total",)
GENERATION_TOKENS = ("vllm:generation_tokens_total",)
CACHE_CONFIG = ("vllm:cache_config_info",)
#: The process knows its start; vLLM with several API processes hides it, and then the birth of
#: the first counter stands in for it.
STARTED = (
    "process_start_time_seconds",
    "vllm:prompt_tokens_created",
    "vllm:generation_tokens_created",
)
#: Counts of more digits than this are none: no cache has so many tokens.
MAX_DIGITS = 12
#: A start so far away is none, and no part of an identity.
MAX_STARTED_UNIX_S = 1e12
_ENGINE = (*RUNNING, *WAITING, *KV_USAGE, *PROMPT_TOKENS, *GENERATION_TOKENS, *CACHE_CONFIG)
_READER = PageReader((*_ENGINE, *STARTED))

Found = dict[str, list[Point]]


@dataclass(frozen=True, slots=True)
class EnginePage:
    """``started_unix_s`` is None when the page does not tell it."""

    sample: EngineSample
    started_unix_s: float | None


def read_page(page: str) -> EnginePage:
    """TelemetryError: the page has nothing of vLLM's."""
    found = _READER.read(page)
    if not any(name in found for name in _ENGINE):
        raise TelemetryError("not a vLLM metrics page")
    return EnginePage(
        EngineSample(
            running=_sum(_series(found, RUNNING)),
            waiting=_sum(_series(found, WAITING)),
            kv_usage=_mean_ratio(_series(found, KV_USAGE)),
            kv_pool_tokens=_kv_pool(_series(found, CACHE_CONFIG)),
            prompt_tokens_total=_sum(_series(found, PROMPT_TOKENS)),
            generation_tokens_total=_sum(_series(found, GENERATION_TOKENS)),
        ),
        _started(found),
    )


def _series(found: Found, names: Sequence[str]) -> list[Point]:
    return next((found[name] for name in names if name in found), [])


def _usable(points: Iterable[Point]) -> list[float]:
    return [point.value for point in points if math.isfinite(point.value) and point.value >= 0]


def _sum(points: list[Point]) -> Signal:
    """Counts: the engines of a node (data parallel) add up."""
    values = _usable(points)
    total = sum(values)
    return measured(total) if values and math.isfinite(total) else ABSENT


def _mean_ratio(points: list[Point]) -> Signal:
    """Shares: two engines at 0.4 make 0.4; vLLM sometimes tells a little more than 1."""
    values = _usable(points)
    return measured(min(sum(values) / len(values), 1.0)) if values else ABSENT


def _kv_pool(points: list[Point]) -> Signal:
    tokens = 0
    for point in points:
        blocks, size = point.labels.get("num_gpu_blocks", ""), point.labels.get("block_size", "")
        # "None" before the engine has measured its memory.
        if _is_count(blocks) and _is_count(size):
            tokens += int(blocks) * int(size)
    return measured(float(tokens)) if tokens else ABSENT


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= MAX_DIGITS


def _started(found: Found) -> float | None:
    values = [value for value in _usable(_series(found, STARTED)) if 0 < value < MAX_STARTED_UNIX_S]
    return min(values) if values else None
