"""A signal while a daemon starts: SIGHUP does not end it, SIGTERM and SIGINT end it well."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

#: In place of the reading of its file, which is after the imports, a command gets a signal.
CODE = """
import os, sys
from isocost.cli.main import main
from isocost.config_source import ConfigSource

def load(_):
    os.kill(os.getpid(), {number})
    sys.exit(7)

ConfigSource.load = load
sys.exit(main({arguments}))
"""
SURVIVED = 7


def signalled(number: int, *arguments: str) -> tuple[int, str]:
    """Exit code and standard error."""
    code = CODE.format(number=int(number), arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60.0, check=False
    )
    return done.returncode, done.stderr


DAEMONS = [("control-plane",), ("agent", "--config", "a.yaml")]


@pytest.mark.parametrize("command", DAEMONS)
def test_a_reload_asked_for_at_start_ends_nothing(command: tuple[str, ...]) -> None:
    assert signalled(signal.SIGHUP, *command) == (SURVIVED, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", DAEMONS)
def test_a_stop_at_start_is_a_clean_one(command: tuple[str, ...], number: int) -> None:
    assert signalled(number, *command) == (0, "")


def test_a_single_sample_that_is_interrupted_is_not_done() -> None:
    assert signalled(signal.SIGINT, *DAEMONS[1], "--once") == (130, "")
