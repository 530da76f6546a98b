"""The capacity of a node is what it completes when there is always more to do."""

from __future__ import annotations

import pytest

from isocost.fake.engine import Engine
from isocost.fake.sequence import Prompt, coarse_marks
from isocost.fake.speeds import Speed
from tests.benchmark.capacity import capacity_per_s
from tests.unit.fake.engines import conversation

#: Every step takes 10 ms, whatever is in it.
FLAT = Speed(0.0, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0)


def start() -> Engine:
    return Engine(FLAT, 4096, 10)


def test_it_is_what_the_batch_and_the_steps_allow() -> None:
    # One step for the prompt, which gives the first token, and 19 more: 0.2 s for ten requests.
    assert capacity_per_s(start, [(Prompt(32), 20)] * 400) == pytest.approx(50, rel=0.02)


def test_longer_answers_take_their_share_of_it() -> None:
    mix = [(Prompt(32), 10), (Prompt(32), 30)] * 200
    assert capacity_per_s(start, mix) == pytest.approx(50, rel=0.05)


def test_shared_beginnings_raise_it() -> None:
    def busy() -> Engine:
        return Engine(Speed(0.0, 0.01, 0.0, 0.0, 1e-4, 0.0, 0.0), 4096, 10)

    alone = capacity_per_s(busy, [(conversation(name, 160), 5) for name in range(200)])
    shared = capacity_per_s(busy, [(conversation(1, 160), 5)] * 200)
    assert shared > 2 * alone


def test_below_it_nobody_waits_for_long_and_above_it_the_queue_grows() -> None:
    capacity = capacity_per_s(start, [(Prompt(32), 20)] * 400)
    waiting = []
    for share in (0.9, 1.1):
        engine = start()
        for number in range(1000):
            now_s = number / (share * capacity)
            engine.advance(now_s)
            engine.submit(now_s, Prompt(32), coarse_marks(20, 2))
        waiting.append(engine.waiting)
    assert waiting[0] <= 10 and waiting[1] == pytest.approx(90, abs=20)


@pytest.mark.parametrize("count", [7, 8])
def test_too_few_requests_are_refused(count: int) -> None:
    """Seven have no middle half; eight end in the same step."""
    with pytest.raises(ValueError, match=f"{count} requests are too few"):
        capacity_per_s(start, [(Prompt(32), 20)] * count)
