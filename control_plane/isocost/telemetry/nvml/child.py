"""The process that reads NVML: rounds of one loop, or of the other, as messages on its output."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from typing import BinaryIO

from isocost.telemetry.nvml.messages import READING, SCANNING, send
from isocost.telemetry.nvml.reader import Reader

#: prctl(2).
_PR_SET_PDEATHSIG = 1


def main(loop: str, interval_s: str, rescan_s: str) -> None:
    """Read ``loop`` (load or condition) until nobody listens. A byte on the input: scan. NVML may
    print, so its output goes to the error output.
    """
    # In a call that hangs it would not notice that its agent is gone.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            _run(loop, float(interval_s), float(rescan_s), out)
        except BrokenPipeError:
            # Nobody listens any more; what is left unsent must not fail once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _run(loop: str, interval_s: float, rescan_s: float, out: BinaryIO) -> None:
    reader = Reader(time.monotonic, interval_s, rescan_s)
    next_s = time.monotonic()
    while True:
        if _asked():
            reader.look_again()
        reader.look_at_slices()
        if reader.scan_due:
            send(out, SCANNING)
            reader.scan(xids=loop == "condition")
            send(out, READING)
        send(out, reader.load() if loop == "load" else reader.condition())
        # A round that took too long delays the later ones; it is not made up for.
        next_s = max(next_s + interval_s, time.monotonic())
        time.sleep(next_s - time.monotonic() if next_s > time.monotonic() else 0)


def _asked() -> bool:
    """Was something written on the input? Its end says nothing: that shows on the output."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        return False
    return os.read(sys.stdin.fileno(), 4096) != b""


if __name__ == "__main__":
    main(*sys.argv[1:])
