"""When a living process has lost abnormally many of its CUDA handles: arithmetic on its counts."""

from __future__ import annotations

from dataclasses import dataclass

#: Of the most handles that it held: with this many or fewer left it has lost abnormally many, ...
LOST_SHARE = 0.5
#: ... and with more than this it has them again.
BACK_SHARE = 0.75
#: One reading can fall into a moment in which handles are closed and opened again.
LOST_READINGS = 2


@dataclass(frozen=True, slots=True)
class HandleHistory:
    """``most``: the most that it held in two readings in a row, so that a peak while it starts
    does not count. ``last``: in the last reading, None before the first.
    """

    most: int = 0
    last: int | None = None
    lost_readings: int = 0
    dropped: bool = False


def after_reading(history: HandleHistory, count: int) -> HandleHistory:
    most = history.most
    if history.last is not None:
        most = max(most, min(history.last, count))
    lost = most > 0 and count <= LOST_SHARE * most
    lost_readings = history.lost_readings + 1 if lost else 0
    dropped = count <= BACK_SHARE * most if history.dropped else lost_readings >= LOST_READINGS
    return HandleHistory(most, count, lost_readings, dropped)
