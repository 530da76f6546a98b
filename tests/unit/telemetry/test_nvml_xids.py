"""Xids of the last ten minutes."""

from __future__ import annotations

from isocost.model import Xid
from isocost.telemetry.nvml.xids import KEPT_S, MAX_XIDS, RecentXids


def test_an_xid_is_counted_and_has_the_time_at_which_it_came_last() -> None:
    xids = RecentXids()
    for at_s, xid in [(1, 62), (2, 45), (3, 62)]:
        xids.hear("GPU-a", xid, at_s)
    xids.hear("GPU-b", 79, 3)
    told = (Xid(45, 1, 2), Xid(62, 2, 3))
    assert xids.of("GPU-a", 4) == xids.of("GPU-a", 5) == told
    assert xids.of("GPU-b", 5) == (Xid(79, 1, 3),)


def test_an_xid_is_forgotten_ten_minutes_after_it_came_last() -> None:
    xids = RecentXids()
    xids.hear("GPU-a", 62, 0)
    xids.hear("GPU-a", 62, 500)
    assert xids.of("GPU-a", 500 + KEPT_S - 0.1) == (Xid(62, 2, 500),)
    assert xids.of("GPU-a", 500 + KEPT_S) == ()
    xids.hear("GPU-a", 62, 500 + KEPT_S)
    assert xids.of("GPU-a", 500 + KEPT_S) == (Xid(62, 1, 500 + KEPT_S),)


def test_of_too_many_xids_the_newest_are_kept() -> None:
    xids = RecentXids()
    for xid in range(MAX_XIDS + 2):
        xids.hear("GPU-a", xid, xid)
    kept = [xid.number for xid in xids.of("GPU-a", MAX_XIDS + 2)]
    assert kept == list(range(2, MAX_XIDS + 2))
