"""What signals do to a daemon that still starts: Python's defaults would end it with an error."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def hold() -> None:
    """Until the daemon has its own handlers: SIGHUP does nothing, since the file is read again just
    after the start, and SIGTERM and SIGINT end the process with exit code 0.
    """
    # Not SIG_IGN, which programs that it starts would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def end(_number: int, _frame: FrameType | None) -> None:
    """A handler that ends the process with exit code 0."""
    sys.exit(0)
