"""The test build of the filter, which fails when a request tells it to."""

from __future__ import annotations

from pathlib import Path

#: What a request's header orders: the failure of its own VM, or of the feed's at its next tick.
TRIGGER = "x-isocost-test-trap"
TRAP_THIS_REQUEST = {TRIGGER: "request"}
TRAP_THE_FEED = {TRIGGER: "feed"}

_FILE = Path(__file__).parents[3] / "build" / "isocost-trap.wasm"


def trap_filter() -> str:
    """Its path; AssertionError if it was not built."""
    assert _FILE.exists(), f"{_FILE} is missing: run make filter-trap"
    return str(_FILE)
