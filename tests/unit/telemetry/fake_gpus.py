"""GPUs that a test makes up: a state file, and the environment of who reads it through NVML."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from isocost.files import FAKE_NVML
from isocost.telemetry.nvml.messages import HEADER, receive
from isocost.telemetry.nvml.process import Nvml
from isocost.telemetry.nvml.rises import Rises
from isocost.telemetry.nvml.rounds import condition_round, load_round

ROOT = Path(__file__).parents[3]
#: When the clock of a reader that is stepped begins.
START_S = 100.0


def build_library() -> None:
    subprocess.run(["make", "-s", "fake-nvml"], cwd=ROOT, check=True)


class FakeGpus:
    """A state file; ``set`` and ``unset`` write it anew, in one step for who reads it."""

    def __init__(self, folder: Path, **state: object) -> None:
        self._path = folder / "gpus"
        self._state: dict[str, object] = {}
        self.set({"gpus": "a"}, **state)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(FAKE_NVML.parent),
            "ISOCOST_FAKE_NVML": str(self._path),
            "PYTHONPATH": str(ROOT / "control_plane"),
        }

    def set(self, state: dict[str, object] | None = None, **more: object) -> None:
        self._state |= {**(state or {}), **more}
        self._write()

    def unset(self, *keys: str) -> None:
        for key in keys:
            del self._state[key]
        self._write()

    def _write(self) -> None:
        text = "".join(f"{key}={value}\n" for key, value in self._state.items())
        new = self._path.with_suffix(".new")
        new.write_text(text)
        new.replace(self._path)


class ReaderProcess:
    """A reader of NVML that takes its steps, and its time, from a test."""

    def __init__(self, environment: dict[str, str], rescan_s: float = 30.0) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, Path(__file__).parent / "nvml_steps.py"),
                *(f"{rescan_s}", f"{START_S}"),
            ],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._rises = Rises()

    def __enter__(self) -> ReaderProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def advance(self, by_s: float) -> None:
        self.step(f"advance {by_s}")

    def look_again(self) -> None:
        self.step("look")

    def load(self, scan: bool = False) -> Any:
        """A round of the fast signals, after a scan if one is due or wished for."""
        return load_round(self.step(f"load {scan:d}"))

    def condition(self, scan: bool = False) -> Any:
        return condition_round(self.step(f"condition {scan:d}"), self._rises)

    def run(self, code: str) -> Any:
        """An expression with pynvml."""
        return self.step(f"run {code}")

    def step(self, step: str) -> Any:
        """What the reader's process answers to one of the steps above."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{step}\n".encode())
        stdin.flush()
        return _receive(stdout)


class SteppedNvml(Nvml):
    """The agent's two readers of NVML, each in a process of its own, that take their rounds, and
    the agent its time, from a test.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.now_s = START_S
        super().__init__(environment, lambda: self.now_s)
        self._load_reader, self._condition_reader = (ReaderProcess(environment) for _ in range(2))

    def __enter__(self) -> SteppedNvml:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in (self._load_reader, self._condition_reader):
            reader.__exit__()

    def advance(self, by_s: float) -> None:
        self.now_s += by_s
        for reader in (self._load_reader, self._condition_reader):
            reader.advance(by_s)

    def read_load(self) -> None:
        self.load._take(self._load_reader.step("load 0"))

    def read_condition(self) -> None:
        self.condition._take(self._condition_reader.step("condition 0"))


def _receive(pipe: IO[bytes]) -> Any:
    (length,) = HEADER.unpack(pipe.read(HEADER.size))
    return receive(pipe.read(length))
