"""Rises of error counters over the last minute: what is a reading, and what is none."""

from __future__ import annotations

import pytest

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.telemetry.nvml.rises import RISES, Rises

REPLAYS, CRC, RECOVERIES = RISES


def stale(value: float, age_s: float) -> Signal:
    return Signal(SignalState.STALE, value, age_s)


class Gpu:
    """One GPU in rounds of half a second."""

    def __init__(self, rises: Rises | None = None) -> None:
        self.rises = rises or Rises()
        self.now_s = 100.0

    def round(self, after_s: float = 0.5, **signals: Signal) -> dict[str, Signal]:
        self.now_s += after_s
        return self.rises.add("GPU-a", signals, self.now_s)

    def replays(self, signal: Signal, after_s: float = 0.5) -> Signal:
        return self.round(after_s, pcie_replays=signal)[REPLAYS]


def test_a_rise_is_known_from_the_second_reading_on() -> None:
    gpu = Gpu()
    assert gpu.replays(measured(7)) == ABSENT
    assert gpu.replays(measured(7)) == measured(0)
    assert gpu.replays(measured(9)) == measured(2)
    assert gpu.replays(measured(10)) == measured(3)


def test_the_same_reading_once_more_is_no_second_one() -> None:
    gpu = Gpu()
    gpu.replays(measured(7))
    assert gpu.replays(measured(7, 0.5)) == ABSENT
    assert gpu.replays(stale(7, 1.0)) == ABSENT
    assert gpu.replays(measured(9)) == measured(2)
    assert gpu.replays(measured(9, 0.5)) == measured(2, 0.5)


def test_a_rise_is_forgotten_after_a_minute() -> None:
    gpu = Gpu()
    gpu.replays(measured(0))
    assert gpu.replays(measured(5)) == measured(5)
    assert gpu.replays(measured(6), 59) == measured(6)
    assert gpu.replays(measured(6), 0.99) == measured(6)
    assert gpu.replays(measured(6), 0.01) == measured(1)
    assert gpu.replays(measured(6), 59) == measured(0)


def test_a_rise_has_the_state_and_the_age_of_its_counter() -> None:
    gpu = Gpu()
    gpu.replays(measured(0))
    gpu.replays(measured(5))
    assert gpu.replays(stale(5, 0.5)) == stale(5, 0.5)
    assert gpu.replays(stale(5, 60), 59.5) == stale(0, 60)
    assert gpu.replays(ABSENT) == ABSENT
    assert gpu.replays(UNSUPPORTED) == UNSUPPORTED


@pytest.mark.parametrize(
    ("before", "now", "rise"),
    [(2.0**32 - 2, 3, 5), (1000, 4, 4), (2.0**33, 4, 4), (2.0**32, 2.0**32 + 1, 1)],
)
def test_a_counter_wraps_at_32_bits_or_begins_anew(before: float, now: float, rise: float) -> None:
    gpu = Gpu()
    gpu.replays(measured(before))
    assert gpu.replays(measured(now)) == measured(rise)


def test_both_kinds_of_crc_errors_and_replays_with_recoveries_add_up() -> None:
    gpu = Gpu()
    names = [name for counters in RISES.values() for name in counters]
    assert len(names) == 5
    assert gpu.round(**dict.fromkeys(names, measured(0))) == dict.fromkeys(RISES, ABSENT)
    rises = gpu.round(**{name: measured(10.0**power) for power, name in enumerate(names)})
    assert rises == {REPLAYS: measured(1), CRC: measured(110), RECOVERIES: measured(11_000)}


def test_of_a_sum_all_parts_must_be_known() -> None:
    gpu = Gpu()
    rises = gpu.round(nvlink_replays=measured(1), nvlink_recoveries=UNSUPPORTED)
    assert rises[RECOVERIES] == ABSENT
    rises = gpu.round(nvlink_replays=measured(1), nvlink_recoveries=UNSUPPORTED)
    assert rises[RECOVERIES] == UNSUPPORTED


def test_gpus_have_rises_of_their_own_until_they_are_gone() -> None:
    rises = Rises()
    gpu = Gpu(rises)
    gpu.replays(measured(0))
    assert rises.add("GPU-b", {"pcie_replays": measured(50)}, 100)[REPLAYS] == ABSENT
    rises.forget_others({"GPU-b"})
    assert gpu.replays(measured(3)) == ABSENT
    assert rises.add("GPU-b", {"pcie_replays": measured(51)}, 101)[REPLAYS] == measured(1)
