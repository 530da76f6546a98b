"""The process that reads NVML: rounds of one loop, or of the other, as messages on its output."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import BinaryIO

from isocost.telemetry.nvml.messages import READING, SCANNING, send
from isocost.telemetry.nvml.output import to_parent
from isocost.telemetry.nvml.reader import Reader


def main(loop: str, interval_s: str, rescan_s: str) -> None:
    """Read ``loop`` (load or condition) until nobody listens. A byte on the input: scan."""
    with to_parent() as out:
        _run(loop, float(interval_s), float(rescan_s), out)


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
