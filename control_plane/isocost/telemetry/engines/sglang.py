"""SGLang's metrics page as an EngineSample.

The ranks of a replica (tp, pp, ep) may each tell the same scheduler's gauges: these are one. The
ranks of data parallelism have schedulers of their own: these add up. From 0.5 on a series with an
empty ``priority`` is the sum of those by priority.
"""

from __future__ import annotations

from collections.abc import Sequence

from isocost.errors import TelemetryError
from isocost.model import ABSENT, EngineSample, Signal
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

#: A gateway or Prometheus in between turns the colon into an underscore.
PREFIXES = ("sglang:", "sglang_")


def _names(*names: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in names for prefix in PREFIXES)


#: Newest name first. When a page has several, the first one counts: they are the same thing.
RUNNING = _names("num_running_reqs", "num_requests_running")
WAITING = _names("num_queue_reqs", "num_requests_waiting")
KV_USAGE = _names("token_usage")
KV_POOL = _names("max_total_num_tokens")
#: Of new versions only, by mode; these move while an answer is made.
LIVE_TOKENS = _names("realtime_tokens_total")
PREFILL_MODES = ("prefill_compute", "prefill_cache")
DECODE_MODES = ("decode",)
#: These move when a request ends.
PROMPT_TOKENS = _names("prompt_tokens_total")
GENERATION_TOKENS = _names("generation_tokens_total")
#: Without live tokens: counted at each piece of an answer. (Not time_per_output_token_seconds:
#: old versions observe it once per request.)
PIECES = _names("inter_token_latency_seconds_count")
#: Most SGLang servers hide it.
STARTED = ("process_start_time_seconds",)
LATENCIES = LatencyNames(
    first_token=_names("time_to_first_token_seconds"),
    per_token=_names("inter_token_latency_seconds", "time_per_output_token_seconds"),
    queue=_names("queue_time_seconds"),
    request=_names("e2e_request_latency_seconds"),
)
#: What tells schedulers apart; old versions say name for model_name.
_SCHEDULER = ("model_name", "name", "engine_type", "dp_rank")
_COPY = ("tp_rank", "pp_rank", "moe_ep_rank")
_READER = PageReader(
    (
        *RUNNING,
        *WAITING,
        *KV_USAGE,
        *KV_POOL,
        *LIVE_TOKENS,
        *PROMPT_TOKENS,
        *GENERATION_TOKENS,
        *PIECES,
        *STARTED,
    )
)

Key = tuple[str, ...]


def read_page(page: str) -> EnginePage:
    """TelemetryError: the page has nothing of SGLang's. One that has not worked yet lacks most."""
    if not has_series(page, PREFIXES):
        raise TelemetryError("not an SGLang metrics page")
    found = _READER.read(page)
    running = _total(series(found, RUNNING))
    usages = _by_scheduler(series(found, KV_USAGE))
    pools = _by_scheduler(series(found, KV_POOL))
    pool = total(list(pools.values()))
    prompt, generation, steps = _work(found)
    return EnginePage(
        EngineSample(
            running=running,
            waiting=_total(series(found, WAITING)),
            kv_usage=share([(usage, pools.get(rank)) for rank, usage in usages.items()]),
            # All gauges are written together: one that is missing beside others never comes.
            kv_pool_tokens=or_unsupported(pool) if running.known else pool,
            prompt_tokens_total=prompt,
            generation_tokens_total=generation,
            steps_total=steps,
        ),
        started(series(found, STARTED)),
        "sglang",
    )


def _work(found: Found) -> tuple[Signal, Signal, Signal]:
    """Prompt tokens, generated tokens, steps."""
    live = series(found, LIVE_TOKENS)
    if live:
        return _of_modes(live, PREFILL_MODES), _of_modes(live, DECODE_MODES), ABSENT
    return (
        total(usable(series(found, PROMPT_TOKENS))),
        total(usable(series(found, GENERATION_TOKENS))),
        # Never absent: that would leave it to the tokens whether the engine works.
        or_unsupported(total(usable(series(found, PIECES)))),
    )


def _of_modes(points: Sequence[Point], modes: Sequence[str]) -> Signal:
    values: list[float] = []
    for mode in modes:
        values += _by_scheduler([p for p in points if p.labels.get("mode") == mode]).values()
    return total(values)


def _total(points: Sequence[Point]) -> Signal:
    return total(list(_by_scheduler(points).values()))


def _by_scheduler(points: Sequence[Point]) -> dict[Key, float]:
    """One number per scheduler: the largest of the copies that its ranks tell."""
    whole = [point for point in points if not point.labels.get("priority")]
    copies: dict[Key, dict[Key, float]] = {}
    for point in whole or points:
        if not is_usable(point.value):
            continue
        ranks = copies.setdefault(_labels(point, _SCHEDULER), {})
        copy = _labels(point, _COPY)
        if copy not in ranks:
            ranks[copy] = point.value
        elif whole:
            ranks[copy] = max(ranks[copy], point.value)
        else:
            ranks[copy] += point.value
    return {scheduler: max(ranks.values()) for scheduler, ranks in copies.items()}


def _labels(point: Point, names: Sequence[str]) -> Key:
    return tuple(point.labels.get(name, "") for name in names)
