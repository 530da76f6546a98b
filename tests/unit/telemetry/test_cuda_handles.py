"""CUDA handles of engine processes: what counts, and which loss is abnormal."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, measured
from isocost.telemetry import cuda_handles
from isocost.telemetry.cuda_handles import CudaHandles, HandleDrop, HandleReading
from isocost.telemetry.handle_drop import HandleHistory, after_reading
from isocost.telemetry.process_stat import start_ticks
from tests.integration.harness.wait import wait_until

#: Of proc(5), from the state on: 50 fields.
STAT = "{pid} ({name}) S 1 1 1 0 -1 4194560 1 0 0 0 5 3 0 0 20 0 9 0 {started} {memory} 700" + (
    " 0" * 28
)


class Processes:
    def __init__(self, procfs: Path) -> None:
        self.procfs = procfs
        self.handles = CudaHandles(procfs)

    def set(
        self, pid: int, handles: int, started: int = 100, memory: int = 10**9, name: str = "vllm"
    ) -> None:
        """A process with that many handles among other open files."""
        files = self.procfs / str(pid) / "fd"
        files.mkdir(parents=True, exist_ok=True)
        for link in files.iterdir():
            link.unlink()
        targets = ["socket:[7]", "/dev/null", "/data/dev/nvidia0", *self._devices(handles)]
        for number, target in enumerate(targets):
            (files / str(number)).symlink_to(target)
        text = STAT.format(pid=pid, name=name, started=started, memory=memory)
        (self.procfs / str(pid) / "stat").write_text(text)

    def end(self, pid: int) -> None:
        (self.procfs / str(pid)).rename(self.procfs / f"ended-{pid}")

    def dropped(self, pids: Sequence[int] = (7,)) -> bool:
        return self.handles.read(pids).dropped

    @staticmethod
    def _devices(count: int) -> list[str]:
        kinds = ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia-caps/nvidia-cap2", "nvidia12")
        return [f"/dev/{kinds[number % len(kinds)]}" for number in range(count)]


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_links_to_nvidias_devices_count(processes: Processes) -> None:
    processes.set(7, 12)
    processes.set(8, 30)
    assert processes.handles.read([7, 8, 7]).handles == measured(42)


def test_without_a_process_nothing_is_known(processes: Processes) -> None:
    assert processes.handles.read([]).handles == ABSENT
    assert processes.handles.read([7]).handles == ABSENT
    processes.set(7, 0)
    assert processes.handles.read([7]).handles == measured(0)


def test_half_of_the_handles_gone_in_two_readings_is_a_drop(processes: Processes) -> None:
    processes.set(7, 40)
    assert [processes.dropped() for _ in range(2)] == [False, False]
    processes.set(7, 21)
    assert [processes.dropped() for _ in range(3)] == [False, False, False]
    processes.set(7, 20)
    assert [processes.dropped() for _ in range(3)] == [False, True, True]
    reading = processes.handles.read([7])
    assert reading.drops == (HandleDrop(7, 20, 40),)
    assert str(reading.drops[0]) == "process 7 has 20 of 40 CUDA handles left"
    processes.set(7, 30)
    assert processes.dropped()
    processes.set(7, 31)
    assert not processes.dropped()


def test_a_moment_without_handles_is_none(processes: Processes) -> None:
    for count in (40, 40, 0, 40, 0, 40, 0):
        processes.set(7, count)
        assert not processes.dropped()


def test_a_peak_while_it_starts_does_not_count(processes: Processes) -> None:
    for count in (10, 200, 40, 40, 40, 40):
        processes.set(7, count)
        assert not processes.dropped()


def test_a_process_that_nvml_lists_no_more_is_still_watched(processes: Processes) -> None:
    processes.set(7, 40)
    for _ in range(2):
        processes.dropped([7])
    processes.set(7, 0)
    assert [processes.dropped([]) for _ in range(2)] == [False, True]
    assert processes.handles.read([]).handles == measured(0)


@pytest.mark.parametrize("how", ["gone", "ending", "replaced"])
def test_a_process_that_ended_is_no_drop(processes: Processes, how: str) -> None:
    processes.set(7, 40)
    for _ in range(2):
        processes.dropped()
    processes.set(7, 0)
    assert [processes.dropped() for _ in range(2)] == [False, True]
    if how == "gone":
        processes.end(7)
    else:
        processes.set(7, 0, started=100 if how == "ending" else 101, memory=int(how == "replaced"))
    assert [processes.dropped() for _ in range(3)] == [False] * 3
    processes.set(8, 40)
    assert processes.handles.read([8]).handles == measured(40)


def test_a_process_with_the_pid_of_another_begins_anew(processes: Processes) -> None:
    for started, count in ((100, 40), (100, 40), (200, 10), (200, 10), (200, 10)):
        processes.set(7, count, started=started)
        assert not processes.dropped()
    processes.set(7, 5, started=200)
    assert [processes.dropped() for _ in range(2)] == [False, True]


def test_one_process_of_several_is_enough(processes: Processes) -> None:
    processes.set(7, 10)
    processes.set(8, 100)
    for _ in range(2):
        processes.dropped([7, 8])
    processes.set(7, 5)
    processes.dropped([7, 8])
    assert processes.handles.read([7, 8]).drops == (HandleDrop(7, 5, 10),)


def test_what_may_not_be_read_is_unsupported_and_told_once(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    processes.set(7, 40)
    processes.set(8, 40)
    listdir = os.listdir

    def denied(path: str | Path) -> list[str]:
        if "/8/" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", denied)
    for _ in range(3):
        assert processes.handles.read([7, 8]).handles == UNSUPPORTED
    assert len(caplog.messages) == 1 and "Permission denied" in caplog.messages[0]
    assert processes.handles.read([7]).handles == UNSUPPORTED
    processes.end(8)
    assert processes.handles.read([7]).handles == measured(40)


def test_a_drop_lasts_while_its_process_cannot_be_read(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    for count in (40, 40, 3, 3):
        processes.set(7, count)
        dropped = processes.dropped()
    assert dropped
    (processes.procfs / "7/stat").write_text("7 (vllm) S")
    reading = processes.handles.read([7])
    assert reading.handles == ABSENT and reading.dropped
    assert "is no process's stat" in caplog.text


def test_a_name_can_look_like_the_rest_of_the_line() -> None:
    for name in ("a b", "x) S 1 2 3", "((", ") ) 9", "\u00e9\n"):
        text = STAT.format(pid=7, name=name, started=4711, memory=5)
        assert start_ticks(text.encode()) == 4711


@given(st.binary(max_size=80), st.integers(0, 300), st.integers(0, 300))
def test_whatever_the_stat_it_is_a_time_or_one_clear_error(
    insert: bytes, one: int, other: int
) -> None:
    text = STAT.format(pid=7, name="vllm", started=100, memory=10**9).encode()
    start, end = sorted((one, other))
    try:
        ticks = start_ticks(text[:start] + insert + text[end:])
    except TelemetryError:
        return
    assert ticks is None or isinstance(ticks, int)


COUNTS = st.lists(st.integers(0, 100), max_size=40)


@given(COUNTS)
def test_a_drop_needs_two_low_readings_and_ends_above_three_quarters(counts: list[int]) -> None:
    history = HandleHistory()
    for place, count in enumerate(counts):
        before = history
        history = after_reading(history, count)
        assert history.most == max(map(min, itertools.pairwise(counts[: place + 1])), default=0)
        if history.dropped and not before.dropped:
            assert history.most > 0
            assert max(counts[place - 1 : place + 1]) <= history.most / 2
        if before.dropped:
            assert history.dropped == (count <= 0.75 * history.most)


@given(st.integers(1, 100), COUNTS)
def test_a_process_that_never_loses_half_never_drops(least: int, more: list[int]) -> None:
    history = HandleHistory()
    for count in more:
        history = after_reading(history, min(least + count, 2 * least - 1))
        assert not history.dropped


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with nine open files whose paths begin like that of ``tmp_path / "nvidia"``."""
    path = str(tmp_path / "nvidia0")
    script = f"import sys; files = [open({path!r}, 'w') for _ in range(9)]; sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


async def test_a_real_process_and_its_zombie(
    opener: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_handles, "_DEVICES", str(tmp_path / "nvidia"))
    handles = CudaHandles()
    await wait_until(
        lambda: handles.read([opener.pid]).handles == measured(9), "its files are counted"
    )
    opener.kill()
    status = psutil.Process(opener.pid).status
    await wait_until(lambda: status() == psutil.STATUS_ZOMBIE, "it is a zombie")
    assert handles.read([opener.pid]) == HandleReading()
