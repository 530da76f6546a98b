"""What a process that calls NVML has in common with its parent: the pipe, and the end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from typing import BinaryIO

#: prctl(2).
_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def to_parent() -> Iterator[BinaryIO]:
    """The standard output of a process that ends with its parent; a block that writes to it ends
    when nobody listens any more. NVML may print, so its output goes to the error output.
    """
    # In a call that hangs it would not notice that its parent is gone.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            yield out
        except BrokenPipeError:
            # What is left unsent must not fail once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
