"""The processes that the demo starts: all of them end with it, and none ends unnoticed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from isocost.errors import StartError

_PR_SET_PDEATHSIG = 1
#: A daemon that has not ended this long after SIGTERM is killed.
_TERM_GRACE_S = 3.0
_LAST_LINES = 12


class Processes:
    """A context manager: leaving it ends everything that was started, on any way out.

    Each process leads a group of its own, so that Ctrl-C in a terminal reaches only the demo and
    the order of the end is the demo's. Use it from the main thread: the kernel ends a child when
    the *thread* that started it ends.
    """

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        nice: int = 0,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Start a process; its pid. Standard error, and output unless it has a file of its own,
        go to NAME.log. ``environment`` is added to this process's own."""
        with (
            self.log(name).open("ab") as log,
            (output or self.log(name)).open("ab") as stdout,
        ):
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=log,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                    preexec_fn=_before_exec(nice),  # noqa: PLW1509  no threads here
                )
            except OSError as error:
                raise StartError(f"{name} cannot be started: {error}") from error
        self._running[name] = process
        return process.pid

    def log(self, name: str) -> Path:
        """Where a process's messages go."""
        return self._log_dir / f"{name}.log"

    def check(self) -> None:
        """StartError with the last lines of its log for a process that ended by itself."""
        for name, process in self._running.items():
            status = process.poll()
            if status is not None:
                how = f"with status {status}" if status >= 0 else f"by signal {-status}"
                raise StartError(f"{name} ended {how}; its last lines:\n{self.last_lines(name)}")

    def last_lines(self, name: str) -> str:
        """The end of a process's log."""
        text = self.log(name).read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()[-_LAST_LINES:]
        return "\n".join(f"  {line}" for line in lines) or "  (nothing)"

    def stop(self) -> None:
        """End everything: SIGTERM to all groups at once, SIGKILL to those that stay."""
        for process in self._running.values():
            _signal_group(process, signal.SIGTERM)
        deadline_s = time.monotonic() + _TERM_GRACE_S
        for process in self._running.values():
            try:
                process.wait(max(deadline_s - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                continue
        for process in self._running.values():
            # Also groups whose leader has ended: it may have left children.
            _signal_group(process, signal.SIGKILL)
            process.wait()
        self._running.clear()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _before_exec(nice: int) -> Callable[[], None]:
    """What the child does before it becomes its command: lower its priority, and ask the kernel
    to end it when the demo is killed without a chance to clean up."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        os.nice(nice)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return prepare
