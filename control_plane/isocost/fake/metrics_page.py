"""What the metrics page of every kind of engine must do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from isocost.fake.sequence import Progress

#: The value of a gauge (running, waiting, kv_usage), or None: the page must not have it.
Reading = Callable[[str], float | None]


class EngineMetrics(Protocol):
    """Counts what the engine itself does not."""

    def observe(self, progress: Progress) -> None:
        """Sees all progress of all requests, in order."""

    def page(self) -> bytes:
        """The page now; the engine has been advanced to the present."""
