"""A child process that cannot outlive the test, with its output in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import isocost

_GRACE_S = 10.0


class Process:
    """Started at once, from the main thread: Envoy asks to die with the thread that started it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.stdout = folder / f"{name}.out"
        self.stderr = folder / f"{name}.err"
        with self.stdout.open("ab") as stdout, self.stderr.open("ab") as stderr:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={**_environment(), **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def require_running(self) -> None:
        """AssertionError with the end of its messages if it ended by itself."""
        if not self.running:
            raise AssertionError(f"{self.name} ended: {self._popen.returncode}\n{self.messages()}")

    def messages(self) -> str:
        """The end of what it said on standard error."""
        return self.stderr.read_text(errors="replace")[-4000:]

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self._popen.kill()
        self._popen.wait()

    def stop(self) -> int:
        """End it kindly, then by force; its exit status."""
        self._popen.terminate()
        try:
            return self._popen.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._popen.returncode


def isocost_command(*arguments: str) -> list[str]:
    """The command line of `isocost ARGUMENTS` with the interpreter of the tests."""
    return [sys.executable, "-m", "isocost.cli.main", *arguments]


def _environment() -> dict[str, str]:
    sources, tests = Path(isocost.__file__).parents[1], Path(__file__).parents[3]
    path = os.pathsep.join(map(str, filter(None, (sources, tests, os.environ.get("PYTHONPATH")))))
    return {**os.environ, "PYTHONPATH": path}
