"""CPU accounting."""

import os
import time
from pathlib import Path

import pytest

from isocost.bench.machine import (
    CpuTimes,
    QuotaTimes,
    busy_fraction,
    cpu_times,
    process_cpu_s,
    quota_times,
    worst_fraction,
)

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


def group(folder: Path, limit: str, used_us: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(f"{limit}\n")
    if used_us is not None:
        (folder / "cpu.stat").write_text(f"usage_usec {used_us}\nuser_usec 1\n")


def test_the_limits_of_this_process_are_its_groups_and_those_around_it(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("4:memory:/x\n0::/pods/p1/c1\n")
    group(root / "pods", "400000 100000", 7_000_000)
    group(root / "pods/p1", "max 100000", 5)
    group(root / "pods/p1/c1", "50000 100000", None)
    group(root / "pods/p2", "1000 100000", 5)
    assert quota_times(root, own) == {
        str(root / "pods"): QuotaTimes(4.0, 7.0),
        str(root / "pods/p1/c1"): QuotaTimes(0.5, None),
    }


def test_in_a_container_the_outermost_group_is_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/\n")
    group(tmp_path / "cgroup", "150000 100000", 9_000_000)
    assert quota_times(tmp_path / "cgroup", own) == {str(tmp_path / "cgroup"): QuotaTimes(1.5, 9.0)}


def test_without_control_groups_nothing_limits(tmp_path: Path) -> None:
    assert quota_times(tmp_path, tmp_path / "absent") == {}


def test_a_quota_that_is_used_up_counts_more_than_an_idle_machine() -> None:
    before, after = {"g": QuotaTimes(0.5, 10.0)}, {"g": QuotaTimes(0.5, 14.5)}
    assert worst_fraction(0.2, before, after, 10.0) == pytest.approx(0.9)
    assert worst_fraction(0.95, before, after, 10.0) == 0.95
    assert worst_fraction(0.2, {}, {}, 10.0) == 0.2


def test_a_quota_whose_use_is_not_known_makes_the_load_unknown() -> None:
    known, unknown = {"g": QuotaTimes(0.5, 10.0)}, {"g": QuotaTimes(0.5, None)}
    assert worst_fraction(0.2, known, unknown, 10.0) is None
    assert worst_fraction(0.2, {}, known, 10.0) is None
    assert worst_fraction(None, known, known, 10.0) is None


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
