"""Where a run is shown: a terminal, a file or a pipe that may fail without ending the run."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO, cast

from rich.console import Console

from isocost.errors import StartError

#: Without a terminal nothing needs to be broken into lines: tables keep their names whole.
_WIDTH = 200


class BestEffort(io.TextIOBase):
    """Writes to ``stream`` until it fails (a pipe without reader, a full disk), then nowhere."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            _silence(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            _silence(self._stream)


def open_console(*, stderr: bool) -> Console:
    """A console on one of the standard streams; letters that it does not have become "?"."""
    # A process may be started without one.
    stream = (sys.stderr if stderr else sys.stdout) or io.StringIO()
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    width = None if stream.isatty() else _WIDTH
    return Console(file=cast("TextIO", BestEffort(stream)), stderr=stderr, width=width)


def print_text(text: str) -> None:
    """Write to standard output; StartError where that is not possible. A reader that has gone has
    read what it wanted."""
    if sys.stdout is None:
        raise StartError("standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        raise StartError(f"standard output: {error}") from error


def _silence(stream: TextIO) -> None:
    """What is still in the stream's buffer goes nowhere, also when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
