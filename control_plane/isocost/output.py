"""What a process prints: where its output may fail, and what may not reach a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO, cast

from isocost.errors import OutputError

#: So many names are enough in one line.
_NAMED = 20


def named(names: Sequence[str]) -> str:
    """The names as text, as many as are enough; empty without any."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def printable(text: str) -> str:
    """The text with every character that a terminal would obey, or that would hide or turn others,
    as an escape: names and errors come from other machines. Line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else _escaped(letter) for letter in text
    )


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def best_effort(stream: TextIO | None) -> TextIO:
    """One of the standard streams, whatever becomes of it (None: the process was started without
    one); letters that it does not have become "?".
    """
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    return cast("TextIO", BestEffort(stream or io.StringIO()))


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
            silence(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            silence(self._stream)


def silence(stream: TextIO) -> None:
    """What is still in the stream's buffer goes nowhere, also when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """What is printed inside is written at its end. OutputError: it could not be, and what is left
    of it goes nowhere.
    """
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    watched = _Watched(
        stream.buffer,
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    sys.stdout = watched
    try:
        try:
            yield
        finally:
            watched.flush()
    except OSError as error:
        if error is not watched.failure:
            raise
        silence(watched)
        raise OutputError(error) from error
    finally:
        sys.stdout = stream
        watched.detach()


class _Watched(io.TextIOWrapper):
    """Knows its own error among those that a command may raise."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.failure = error
            raise

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.failure = error
            raise
