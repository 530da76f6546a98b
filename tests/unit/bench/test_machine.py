"""CPU accounting."""

import os
import time
from pathlib import Path

import pytest

from isocost.bench.machine import CpuTimes, busy_fraction, cpu_times, process_cpu_s

STAT = """cpu  100 20 30 800 50 5 15 10 70 0
cpu0 100 20 30 800 50 5 15 10 70 0
"""


def test_idle_and_iowait_are_not_busy_and_guest_time_counts_once(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    assert cpu_times(stat) == CpuTimes(busy=180, total=1030)


def test_a_kernel_without_the_file_is_unknown_not_idle(tmp_path: Path) -> None:
    assert cpu_times(tmp_path / "stat") is None
    assert busy_fraction(None, CpuTimes(1, 2)) is None
    assert busy_fraction(CpuTimes(1, 2), CpuTimes(1, 2)) is None


def test_the_busy_fraction_is_of_the_time_between() -> None:
    assert busy_fraction(CpuTimes(100, 1000), CpuTimes(150, 1200)) == pytest.approx(0.25)


def test_a_process_that_works_uses_cpu() -> None:
    before = process_cpu_s(os.getpid())
    assert before is not None
    started = time.process_time()
    while time.process_time() - started < 0.05:
        pass
    after = process_cpu_s(os.getpid())
    assert after is not None
    assert 0.03 <= after - before <= 1.0


def test_a_process_that_is_gone_has_no_figure() -> None:
    assert process_cpu_s(2**22 + 1) is None
