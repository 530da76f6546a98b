"""The signals that end a run early, and cleanly."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopping_on_signals(stop: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Ctrl-C, `kill` and a closed terminal call ``stop`` once; a second time they end the
    process."""
    loop = asyncio.get_running_loop()
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # `nohup` and the like have it ignored.
        if signal.getsignal(number) is not signal.SIG_IGN
    ]

    def stop_once(number: signal.Signals) -> None:
        restore()
        stop(number)

    def restore() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, stop_once, number)
    try:
        yield
    finally:
        restore()
