"""One command of the operator's: in bounds of time and output, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

#: After SIGTERM a command has this long to tidy up; after SIGKILL a process needs no longer to end.
GRACE_S = 5.0
#: What the command left running may hold its output open for ever.
OUTPUT_PATIENCE_S = 1.0
#: Enough for the message that says why it failed.
OUTPUT_BYTES = 4096
OUTPUT_LINES = 20

_POLL_S = 0.05
_CHUNK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """``exit_code`` is negative for a signal. ``lines``: the last ones of its output."""

    exit_code: int
    in_time: bool
    lines: tuple[str, ...]


async def run_command(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float
) -> CommandEnd:
    """Run it to its end, without a shell; past the limit, or if cancelled, its process group is
    ended. OSError, ValueError: it did not start.
    """
    async with _pipe() as (reader, write_end):
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        output = _Output()
        reading = asyncio.create_task(output.take(reader))
        try:
            in_time = await _finish(process, limit_s)
            await asyncio.wait([reading], timeout=OUTPUT_PATIENCE_S)
        finally:
            reading.cancel()
        return CommandEnd(process.returncode or 0, in_time, output.lines())


class _Output:
    def __init__(self) -> None:
        self._end = b""

    async def take(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            self._end = (self._end + chunk)[-OUTPUT_BYTES:]

    def lines(self) -> tuple[str, ...]:
        """Nothing in them can pass for a line of the log, or move a terminal's cursor."""
        lines = self._end.decode("utf-8", "replace").splitlines()[-OUTPUT_LINES:]
        return tuple("".join(c if c.isprintable() else "\ufffd" for c in line) for line in lines)


@asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """One of our own: asyncio's would make the end of a command wait for all that hold it."""
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
    )
    try:
        yield reader, write_end
    finally:
        transport.close()


async def _finish(process: asyncio.subprocess.Process, limit_s: float) -> bool:
    """Wait for its end; was it in time?"""
    try:
        async with asyncio.timeout(limit_s):
            await process.wait()
    except TimeoutError:
        await _end_group(process.pid)
        # One of another user cannot be ended from here: there must not be a second one until then.
        await process.wait()
        return False
    except asyncio.CancelledError:
        await _end_group(process.pid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        raise
    return True


async def _end_group(group: int) -> None:
    try:
        if _signal(group, signal.SIGTERM):
            async with asyncio.timeout(GRACE_S):
                while _signal(group, 0):  # noqa: ASYNC110  nobody tells when a group is gone
                    await asyncio.sleep(_POLL_S)
    except TimeoutError:
        pass
    finally:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """False: there is nobody left that may be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
