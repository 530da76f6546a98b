"""Who used the CPU between two readings."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isocost.bench.machine import CpuTimes, QuotaTimes
from isocost.bench.processes import (
    MachineReading,
    ProcessTimes,
    cpu_between,
    read_processes,
    short_name,
)
from isocost.bench.report import ProcessCpu


def add_process(
    proc: Path, pid: int, comm: str, command: bytes, user: int, system: int, started: int
) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    fields = ["S", *["0"] * 10, str(user), str(system), *["0"] * 6, str(started), "0"]
    (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)}\n")
    (folder / "cmdline").write_bytes(command)


def test_cpu_times_are_read_also_behind_a_name_with_parentheses(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    add_process(tmp_path, 7, "a) (b c", b"/usr/bin/envoy\0--config-path\0x\0", 2 * ticks, ticks, 99)
    add_process(tmp_path, 8, "kworker/0:1", b"", 0, 0, 5)
    (tmp_path / "9").mkdir()
    (tmp_path / "self").mkdir()
    assert read_processes(tmp_path) == {
        (7, 99): ProcessTimes("envoy", 3.0),
        (8, 5): ProcessTimes("[kworker/0:1]", 0.0),
    }


def test_only_what_was_used_in_between_counts_and_a_pid_used_again_is_another_process() -> None:
    before = {
        (1, 0): ProcessTimes("idle", 50.0),
        (2, 0): ProcessTimes("busy", 10.0),
        (3, 0): ProcessTimes("ended", 1.0),
    }
    after = {
        (1, 0): ProcessTimes("idle", 50.0),
        (2, 0): ProcessTimes("busy", 13.0),
        (3, 70): ProcessTimes("new", 1.0),
    }
    assert cpu_between(before, after, 2.0) == [
        ProcessCpu(2, "busy", 1.5),
        ProcessCpu(3, "new", 0.5),
    ]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/usr/bin/envoy", "--config-path", "x"], "envoy"),
        (["/v/bin/python3", "-m", "isocost.cli.main", "fake-node", "--name=x"],
         "isocost.cli.main fake-node"),
        (["python", "-u", "-X", "dev", "dir/script.py"], "script.py"),
        (["python3.11", "/opt/tool/run.py", "--api-key", "secret"], "run.py"),
        (["python", "-c", "print('secret')"], "python -c"),
        (["vllm", "serve", "model/x"], "vllm serve"),
        (["curl", "https://user:secret@host/"], "curl"),
        (["nginx: master process /usr/sbin/nginx"], "nginx:"),
        (["x" * 100], "x" * 60),
        ([], "[comm]"),
        ([""], "[comm]"),
    ],
)  # fmt: skip
def test_a_name_is_short_and_holds_no_option(words: list[str], name: str) -> None:
    assert short_name(words, "comm") == name


def test_a_reading_knows_the_machine_and_the_processes_until_a_later_one() -> None:
    first = MachineReading(10.0, CpuTimes(100, 1000), {(1, 0): ProcessTimes("p", 1.0)})
    later = MachineReading(12.0, CpuTimes(280, 1200), {(1, 0): ProcessTimes("p", 2.0)})
    assert first.busy_until(later) == pytest.approx(0.9)
    assert first.processes_until(later) == (ProcessCpu(1, "p", 0.5),)
    assert first.processes_until(first) == ()


def test_a_used_up_quota_is_in_the_busy_part() -> None:
    times = CpuTimes(0, 0), CpuTimes(20, 200)
    first = MachineReading(0.0, times[0], {}, {"g": QuotaTimes(0.5, 1.0)})
    later = MachineReading(10.0, times[1], {}, {"g": QuotaTimes(0.5, 6.0)})
    assert first.busy_until(later) == pytest.approx(1.0)


def test_a_real_process_that_works_is_among_the_busiest() -> None:
    before = MachineReading.take()
    code = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    code += "\nprint('done', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        after = MachineReading.take()
        found = {process.pid: process for process in before.processes_until(after)}
        child.communicate(b"\n")
    used_s = found[child.pid].cpu_fraction * (after.at_s - before.at_s)
    assert 0.25 <= used_s <= time.monotonic() - before.at_s
