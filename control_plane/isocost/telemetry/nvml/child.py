"""The process that reads NVML: rounds of one loop, or of the other, as messages on its output."""

from __future__ import annotations

import argparse
import time
from typing import BinaryIO

from isocost.telemetry.nvml.messages import READING, SCANNING, send
from isocost.telemetry.nvml.output import to_parent
from isocost.telemetry.nvml.reader import Reader

LOOPS = ("load", "condition")


def main(arguments: list[str] | None = None) -> None:
    """Read until nobody listens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--interval-s", type=float, required=True)
    parser.add_argument("--rescan-s", type=float, required=True)
    options = parser.parse_args(arguments)
    with to_parent() as out:
        _run(options.loop, options.interval_s, options.rescan_s, out)


def _run(loop: str, interval_s: float, rescan_s: float, out: BinaryIO) -> None:
    reader = Reader(time.monotonic, rescan_s)
    next_s = time.monotonic()
    while True:
        if reader.scan_due:
            send(out, SCANNING)
            reader.scan(xids=loop == "condition")
            send(out, READING)
        send(out, reader.load() if loop == "load" else reader.condition())
        # A round that took too long delays the later ones; it is not made up for.
        next_s = max(next_s + interval_s, time.monotonic())
        time.sleep(next_s - time.monotonic() if next_s > time.monotonic() else 0)


if __name__ == "__main__":
    main()
