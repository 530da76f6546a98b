"""The process of ReaderProcess: a reader whose clock stands still until a step moves it."""

from __future__ import annotations

import sys

import pynvml

from isocost.telemetry.nvml.messages import send
from isocost.telemetry.nvml.reader import Reader


def main() -> None:
    now_s = float(sys.argv[2])
    reader = Reader(lambda: now_s, 0.5, float(sys.argv[1]))
    for line in sys.stdin:
        step, _, argument = line.strip().partition(" ")
        answer: object = None
        if step == "advance":
            now_s += float(argument)
        elif step == "look":
            reader.look_again()
        elif step == "run":
            answer = eval(argument, {"pynvml": pynvml})
        else:
            reader.look_at_slices()
            if reader.scan_due or argument == "1":
                reader.scan(xids=step == "condition")
            answer = reader.load() if step == "load" else reader.condition()
        send(sys.stdout.buffer, answer)


main()
