"""vLLM's metrics page, 0.2 to 0.26, as an EngineSample.

A page of several engines (data parallel) has each series once per engine, told apart by the label
``engine``; one of several models, which are processes of their own behind one address, also by
``model_name``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from isocost.errors import TelemetryError
from isocost.model import ABSENT, EngineSample, Signal, measured
from isocost.telemetry.engines.exposition import PageReader, Point
from isocost.telemetry.engines.histogram import LatencyNames
from isocost.telemetry.engines.page import (
    EnginePage,
    Found,
    is_usable,
    series,
    share,
    started,
    total,
    usable,
)

PREFIXES = ("vllm:",)
#: Newest name first. When a page has several, the first one counts: they are the same thing.
RUNNING = ("vllm:num_requests_running",)
WAITING = ("vllm:num_requests_waiting",)
#: gpu_cache_usage_perc until the early V1 engine.
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
LATENCIES = LatencyNames(
    first_token=("vllm:time_to_first_token_seconds",),
    # time_per_output_token_seconds in V0 and the early V1 engine.
    per_token=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    queue=("vllm:request_queue_time_seconds",),
    request=("vllm:e2e_request_latency_seconds",),
)
#: Counts of more digits than this are none: no cache has so many tokens.
MAX_DIGITS = 12
_ENGINE = (*RUNNING, *WAITING, *KV_USAGE, *PROMPT_TOKENS, *GENERATION_TOKENS, *CACHE_CONFIG)
_READER = PageReader((*_ENGINE, *STARTED))


def read_page(page: str) -> EnginePage:
    """TelemetryError: the page has nothing of vLLM's."""
    found = _READER.read(page)
    if not any(name in found for name in _ENGINE):
        raise TelemetryError("not a vLLM metrics page")
    return EnginePage(
        _sample(found), started(series(found, STARTED)), "vllm", tuple(_by_model(found))
    )


def _sample(found: Found) -> EngineSample:
    pools = _pools(series(found, CACHE_CONFIG))
    return EngineSample(
        running=total(usable(series(found, RUNNING))),
        waiting=total(usable(series(found, WAITING))),
        kv_usage=_kv_usage(series(found, KV_USAGE), pools),
        kv_pool_tokens=measured(float(sum(pools.values()))) if pools else ABSENT,
        prompt_tokens_total=total(usable(series(found, PROMPT_TOKENS))),
        generation_tokens_total=total(usable(series(found, GENERATION_TOKENS))),
    )


def _by_model(found: Found) -> Iterator[tuple[str, EngineSample]]:
    """The page as that of each of its models; nothing if it has one only."""
    models_of: dict[str, set[str]] = {}
    for point in series(found, RUNNING):
        models_of.setdefault(_engine(point), set()).add(point.labels.get("model_name", ""))
    models = set().union(*models_of.values())
    if len(models) < 2:
        return

    def of(model: str, point: Point) -> bool:
        # The cache's configuration does not name its model: its engine does, if it has one only.
        name = point.labels.get("model_name")
        return models_of.get(_engine(point)) == {model} if name is None else name == model

    for model in sorted(models):
        own = {name: [p for p in points if of(model, p)] for name, points in found.items()}
        yield model, _sample(own)


def _kv_usage(points: Iterable[Point], pools: dict[str, int]) -> Signal:
    return share(
        [(point.value, pools.get(_engine(point))) for point in points if is_usable(point.value)]
    )


def _pools(points: Iterable[Point]) -> dict[str, int]:
    """Tokens of the KV cache by engine."""
    pools: dict[str, int] = {}
    for point in points:
        blocks, size = point.labels.get("num_gpu_blocks", ""), point.labels.get("block_size", "")
        # "None" before the engine has measured its memory.
        if _is_count(blocks) and _is_count(size) and int(blocks) * int(size) > 0:
            engine = _engine(point)
            pools[engine] = pools.get(engine, 0) + int(blocks) * int(size)
    return pools


def _engine(point: Point) -> str:
    return point.labels.get("engine", "")


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= MAX_DIGITS
