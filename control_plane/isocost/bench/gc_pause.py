"""Python's collector of cycles, made rare for a while: each of its passes holds up the clock."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: A pass over everything takes 50 to 150 ms with a thousand requests open, which is then in the
#: latencies. Young objects are still collected, because a request leaves some in cycles: about
#: 1.5 with aiohttp 3.14. The old generation practically never is.
_THRESHOLDS = (50_000, 50, 1_000)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Inside it what is there already is left alone, and the rest is collected rarely."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
