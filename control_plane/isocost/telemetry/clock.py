"""A node's own clock, where it is not the agent's: a page that tells its unix time."""

from __future__ import annotations

import json

from isocost.errors import TelemetryError

#: A clock that far ahead (the year 33658) tells nothing.
MAX_WALL_MS = 1e15


def read_page(page: str) -> float:
    """The unix seconds of ``{"wall_unix_ms": N}``. TelemetryError: it tells none that can be."""
    try:
        wall_ms = json.loads(page)["wall_unix_ms"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise TelemetryError(f"not a page with a clock: {error!r}") from error
    if isinstance(wall_ms, bool) or not isinstance(wall_ms, int | float):
        raise TelemetryError(f"not a time: {wall_ms!r:.80}")
    if not 0 <= wall_ms < MAX_WALL_MS:
        raise TelemetryError(f"not a time that can be: {wall_ms!r:.80}")
    return wall_ms / 1e3
