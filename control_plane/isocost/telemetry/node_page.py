"""What a node tells of itself: its clock, where that is not the agent's, and its work's age."""

from __future__ import annotations

import json
from dataclasses import dataclass

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, Signal, measured

#: A clock that far ahead (the year 33658) tells nothing.
MAX_WALL_MS = 1e15


@dataclass(frozen=True, slots=True)
class NodePage:
    """``wall_s``: the node's unix time. ``kv_cache_age_s``: how long the KV caches of its running
    requests have been there, on average, by its clock.
    """

    wall_s: float
    kv_cache_age_s: Signal


def read_page(text: str) -> NodePage:
    """A page ``{"wall_unix_ms": N, "kv_cache_age_ms": N}``, the second if the node knows it; null
    while nothing runs. TelemetryError: it tells no time that can be.
    """
    try:
        page = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TelemetryError("it is not JSON") from error
    if not isinstance(page, dict) or "wall_unix_ms" not in page:
        raise TelemetryError("it has no wall_unix_ms")
    wall_ms = page["wall_unix_ms"]
    if not _is_number(wall_ms):
        raise TelemetryError(f"wall_unix_ms is not a time: {wall_ms!r:.80}")
    if not 0 <= wall_ms < MAX_WALL_MS:
        raise TelemetryError(f"wall_unix_ms is not a time that can be: {wall_ms!r:.80}")
    return NodePage(wall_ms / 1e3, _age(page))


def _age(page: dict[str, object]) -> Signal:
    """By a clock that was set back, requests began in the future: they are as if just begun."""
    if "kv_cache_age_ms" not in page:
        return UNSUPPORTED
    age_ms = page["kv_cache_age_ms"]
    if isinstance(age_ms, int | float) and _is_number(age_ms) and abs(age_ms) < MAX_WALL_MS:
        return measured(max(age_ms, 0.0) / 1e3)
    return UNSUPPORTED if age_ms == "unsupported" else ABSENT


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
