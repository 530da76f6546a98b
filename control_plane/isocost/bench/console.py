"""Where a run is shown: a terminal, a file or a pipe that may fail without ending the run."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from isocost.errors import StartError
from isocost.output import best_effort, printable, silence

#: Without a terminal nothing needs to be broken into lines: tables keep their names whole.
_WIDTH = 200


class PlainConsole(Console):
    """Texts are shown as they are, in lines and in tables: nothing in them is a command, neither to
    the terminal nor to rich.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, **settings)

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how)


def open_console(*, stderr: bool) -> Console:
    """A console on one of the standard streams."""
    stream = best_effort(sys.stderr if stderr else sys.stdout)
    width = None if stream.isatty() else _WIDTH
    return PlainConsole(file=stream, stderr=stderr, width=width)


def print_text(text: str) -> None:
    """Write to standard output; StartError where that is not possible. A reader that has gone has
    read what it wanted."""
    if sys.stdout is None:
        raise StartError("standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise StartError(f"standard output: {error}") from error
