"""What every command has in common: an exit code says what it is documented to say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from isocost.cli import main as command
from isocost.cli import nodes
from isocost.errors import RejectedError, StartError
from isocost.output import named
from tests.unit.telemetry.topologies import FILES


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (StartError("no port"), 3, "isocost: no port"),
        (RejectedError("no such node"), 2, "isocost: no such node"),
        (KeyboardInterrupt(), 130, ""),
        (RuntimeError("nobody thought of this"), 3, ""),
    ],
)
def test_an_error_is_never_taken_for_a_no(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    code: int,
    said: str,
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(nodes, "run", fail)
    assert command.main(["nodes"]) == code
    assert said in capsys.readouterr().err
    assert ("nobody thought of this" in caplog.text) == isinstance(error, RuntimeError)


def printed_into(output: IO[bytes], *arguments: str, unbuffered: str) -> tuple[int, str]:
    """Exit code and standard error of a command as a process."""
    done = subprocess.run(
        [sys.executable, "-m", "isocost.cli.main", *arguments],
        stdout=output,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        text=True,
        timeout=60.0,
        check=False,
    )
    return done.returncode, done.stderr


TOPOLOGY = ("topology", "--json", "--file", str(FILES / "h200-8x-nv18-10nic.txt"))
NO_SPACE = "isocost: cannot write the output: No space left on device\n"


#: It fails at the end, where the buffer is written, or in the midst.
unbuffered_or_not = pytest.mark.parametrize("unbuffered", ["", "1"])


@unbuffered_or_not
def test_a_full_disk_is_told_in_one_line(unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        assert printed_into(full, *TOPOLOGY, unbuffered=unbuffered) == (3, NO_SPACE)


@unbuffered_or_not
def test_a_reader_that_has_gone_ends_a_command_without_a_word(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        assert printed_into(pipe, *TOPOLOGY, unbuffered=unbuffered) == (3, "")


def test_help_that_cannot_be_written_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        assert printed_into(full, "--help", unbuffered="") == (3, NO_SPACE)


def test_another_full_disk_is_not_taken_for_the_outputs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> int:
        Path("/dev/full").write_text("x")
        return 0

    monkeypatch.setattr(nodes, "run", fail)
    assert command.main(["nodes"]) == 3
    assert "No space left on device" in caplog.text and "Traceback" in caplog.text


def test_a_line_names_as_many_names_as_are_enough_and_says_that_there_are_more() -> None:
    names = [f"gpu-{number}" for number in range(1, 22)]
    assert named([]) == ""
    assert named(names[:20]) == ", ".join(names[:20])
    assert named(names) == ", ".join(names[:20]) + ", ..."


@pytest.mark.parametrize("flag", ["--listen", "--http", "--state-dir", "--policy"])
def test_a_word_of_the_command_line_that_is_empty_is_refused(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["control-plane", flag, ""]) == 2
    assert "'' is not allowed" in capsys.readouterr().err
