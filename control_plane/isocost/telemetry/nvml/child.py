"""The process that reads NVML: rounds of one loop, or of the other, as messages on its output."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from typing import BinaryIO

from isocost.telemetry.nvml.messages import READING, RETRY, SCANNING, STUCK, send
from isocost.telemetry.nvml.output import to_parent
from isocost.telemetry.nvml.reader import Reader

#: So often is looked, in the time that a GPU has, whether the same call still waits.
_LOOKS = 2


def main(loop: str, interval_s: str, rescan_s: str, patience_s: str, skip: str) -> None:
    """Read ``loop`` (load or condition) until nobody listens. SCAN or RETRY on the input: look for
    GPUs. ``skip``: indices of GPUs that are not asked, separated by commas.
    """
    reader = Reader(
        time.monotonic,
        float(interval_s),
        float(rescan_s),
        [int(index) for index in skip.split(",") if index],
    )
    with to_parent() as out:
        # The thread only runs while a call waits in the driver: then nobody else writes.
        watch = threading.Thread(target=_watch, args=(reader, float(patience_s), out), daemon=True)
        watch.start()
        _run(reader, loop, float(interval_s), out)


def _run(reader: Reader, loop: str, interval_s: float, out: BinaryIO) -> None:
    next_s = time.monotonic()
    while True:
        if (asked := _asked()) is not None:
            reader.look_again(skipped=RETRY in asked)
        reader.look_at_slices()
        if reader.scan_due:
            send(out, SCANNING)
            reader.scan(xids=loop == "condition")
            send(out, READING)
        send(out, reader.load() if loop == "load" else reader.condition())
        # A round that took too long delays the later ones; it is not made up for.
        next_s = max(next_s + interval_s, time.monotonic())
        time.sleep(next_s - time.monotonic() if next_s > time.monotonic() else 0)


def _watch(reader: Reader, patience_s: float, out: BinaryIO) -> None:
    """Tell of a GPU that does not answer, once: what reads is then ended, and begun without it."""
    asked, looks = None, 0
    while looks < _LOOKS:
        time.sleep(patience_s / _LOOKS)
        now = reader.at
        looks = looks + 1 if now is not None and now is asked else 0
        asked = now
    if asked is not None:
        send(out, (STUCK, asked[0]))


def _asked() -> bytes | None:
    """What was written on the input. Its end says nothing: that shows on the output."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        return None
    return os.read(sys.stdin.fileno(), 4096) or None


if __name__ == "__main__":
    main(*sys.argv[1:])
