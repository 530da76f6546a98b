"""When Python looks for objects that only refer to each other."""

from __future__ import annotations

import gc

#: So many more objects than at the last look. A round of 10,240 nodes makes that many, and all but
#: a few are let go of, which needs no look: by default there would be one for every 700, and each
#: of the larger ones takes a good part of a tick.
_MORE_OBJECTS = 100_000


def serve_from_here() -> None:
    """Everything made so far lives as long as the process: it is not looked at again, and the rest
    seldom.
    """
    gc.freeze()
    gc.set_threshold(_MORE_OBJECTS)
