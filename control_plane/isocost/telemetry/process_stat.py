"""Which process a pid is, of /proc/PID/stat: a pid is used again."""

from __future__ import annotations

from isocost.errors import TelemetryError

#: Counted from the state, which is the third of all: proc(5) calls them 22 and 23.
_START_PLACE = 22 - 3
_MEMORY_PLACE = 23 - 3


def start_ticks(stat: bytes) -> int | None:
    """When it started, in clock ticks since boot: with the pid that is its identity. None: it has
    no memory any more, so it is ending or a zombie. TelemetryError: not such a text.
    """
    # The name is anything in parentheses, also what looks like the rest of the line.
    fields = stat.rpartition(b")")[2].split()
    try:
        start, memory_bytes = int(fields[_START_PLACE]), int(fields[_MEMORY_PLACE])
    except (IndexError, ValueError) as error:
        raise TelemetryError(f"{stat[:60]!r} is no process's stat") from error
    return start if memory_bytes > 0 else None
