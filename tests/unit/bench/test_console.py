"""A run is shown as long as that is possible, and never ends because it is not."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from isocost.bench.console import PlainConsole, open_console
from isocost.bench.summary import say

ROOT = Path(__file__).parents[3]
SHOW = """
import sys
from isocost.bench.console import open_console, print_text
console = open_console(stderr=False)
for _ in range(20_000):
    console.print("a line that fills every buffer in the end \N{EM DASH}")
print("still here", file=sys.stderr)
"""
PRINT = """
import sys
from isocost.bench.console import print_text
from isocost.errors import StartError
try:
    print_text("x" * 1_000_000)
    print("done", file=sys.stderr)
except StartError as error:
    print("refused:", error, file=sys.stderr)
"""


def shell(code: str, sink: str, **environment: str) -> tuple[int, str]:
    """The exit code and the messages of a process whose output goes to ``sink``."""
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$0" -c "$1" {sink}', sys.executable, code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "control_plane")} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("sink", ["> /dev/full", "| true", "| head -1 > /dev/null", ">&-"])
def test_an_output_that_fails_does_not_end_the_run(sink: str) -> None:
    assert shell(SHOW, sink) == (0, "still here\n")


def test_letters_that_the_output_does_not_have_are_replaced() -> None:
    assert shell(SHOW, "> /dev/null", PYTHONIOENCODING="ascii") == (0, "still here\n")


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ("| true", "done"),
        ("> /dev/null", "done"),
        ("> /dev/full", "refused: standard output: [Errno 28]"),
        (">&-", "refused: standard output is closed"),
    ],
)
def test_a_text_for_standard_output_is_written_or_refused(sink: str, told: str) -> None:
    code, messages = shell(PRINT, sink)
    assert code == 0
    assert messages.startswith(told)


EVIL = "\x1b[2J\x07\x9b31m\x7f\u202e\r[/red] é"
SHOWN = r"\x1b[2J\x07\x9b31m\x7f\u202e\r[/red] é"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_server_says_is_no_command_to_the_terminal(terminal: bool) -> None:
    shown = io.StringIO()
    console = PlainConsole(file=shown, width=200, force_terminal=terminal, color_system=None)
    console.print(f"line {EVIL}", style="bold")
    say(console, f"said {EVIL}")
    table = Table(box=None)
    table.add_column(EVIL)
    table.add_row(f"cell {EVIL}")
    console.print(table)
    lines = shown.getvalue()
    assert lines.count(SHOWN) == 4
    assert all(letter.isprintable() or letter in "\n\x1b" for letter in lines)
    assert "\x1b[2J" not in lines


def test_without_a_terminal_a_table_may_be_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert open_console(stderr=False).width == 200
