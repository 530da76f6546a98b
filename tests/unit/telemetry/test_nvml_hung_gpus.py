"""GPUs that do not answer: what is left out, for how long, and what stays known of them."""

from __future__ import annotations

from isocost.model import Signal, SignalState, measured
from isocost.telemetry.nvml.hung_gpus import RETRY_MAX_S, RETRY_MIN_S, HungGpus
from isocost.telemetry.nvml.sample import GpuIdentity, GpuLoad, Round

A = GpuLoad(GpuIdentity("GPU-a"), memory_free_bytes=measured(7.0))
B = GpuLoad(GpuIdentity("GPU-b"), memory_free_bytes=measured(8.0))


def test_it_is_left_out_for_twice_as_long_each_time() -> None:
    hung: HungGpus[GpuLoad] = HungGpus()
    now_s, waits_s = 100.0, []
    for _ in range(9):
        waits_s.append(hung.add(3, {}, now_s, now_s))
        assert hung.skipped == (3,)
        assert not hung.retry(now_s + waits_s[-1] - 0.1)
        now_s += waits_s[-1]
        assert hung.retry(now_s) and hung.skipped == ()
        assert not hung.retry(now_s)
    assert waits_s[:3] == [RETRY_MIN_S, 2 * RETRY_MIN_S, 4 * RETRY_MIN_S]
    assert waits_s[-1] == RETRY_MAX_S


def test_one_that_answered_again_begins_with_the_shortest_time() -> None:
    hung: HungGpus[GpuLoad] = HungGpus()
    for _ in range(2):
        assert hung.add(0, {"GPU-a": A}, 1.0, 1.0) >= RETRY_MIN_S
    hung.completed(Round(2.0, (A,)), {"GPU-a": 0}, ())
    assert hung.add(0, {"GPU-a": A}, 3.0, 3.0) == RETRY_MIN_S


def test_what_was_read_last_stays_known_and_gets_old() -> None:
    hung: HungGpus[GpuLoad] = HungGpus()
    hung.add(0, {"GPU-a": A}, 10.0, 12.0)
    for taken_s in (13.0, 20.0):
        found = hung.completed(Round(taken_s, (B,)), {"GPU-b": 1}, (0,))
        assert [gpu.identity.uuid for gpu in found.gpus] == ["GPU-b", "GPU-a"]
        assert found.gpus[0] == B
        old = Signal(SignalState.STALE, 7.0, taken_s - 10.0)
        assert found.gpus[1].memory_free_bytes == old
    # Hung again at a try: what is known is no younger for that.
    hung.add(0, {"GPU-a": found.gpus[1]}, 20.0, 22.0)
    found = hung.completed(Round(30.0, (B,)), {"GPU-b": 1}, (0,))
    assert found.gpus[1].memory_free_bytes.age_s == 20.0
    assert hung.completed(Round(31.0, (A, B)), {"GPU-a": 0, "GPU-b": 1}, ()).gpus == (A, B)


def test_one_that_is_gone_when_it_is_tried_again_is_not_shown_any_more() -> None:
    hung: HungGpus[GpuLoad] = HungGpus()
    hung.add(0, {"GPU-a": A}, 10.0, 12.0)
    # The driver says nothing: nothing is known of who is there.
    assert len(hung.completed(Round(13.0, (), "no driver"), {}, ()).gpus) == 1
    assert hung.completed(Round(14.0, (B,)), {"GPU-b": 1}, ()).gpus == (B,)
