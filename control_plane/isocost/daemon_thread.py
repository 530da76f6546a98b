"""Blocking work that a stop does not wait for, as it does for asyncio's own threads: a disk that
hangs, or a file that takes long to read.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def call(function: Callable[..., Result], *args: Any) -> Result:
    """The function's result or exception; when cancelled, nobody looks at either."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result: Result | None = None
        failure: Exception | None = None
        try:
            result = function(*args)
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            failure = error
        # RuntimeError: the loop is closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name=function.__name__, daemon=True).start()
    return await done
