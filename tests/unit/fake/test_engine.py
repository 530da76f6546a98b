"""The engine's rules, one by one; the books under any traffic are in test_engine_machine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from isocost.fake.engine import STEP_TOKENS, Engine
from isocost.fake.sequence import Progress, Prompt, coarse_marks
from isocost.fake.speeds import Speed
from tests.unit.fake.engines import SPEED, conversation, submit

BLOCKS = 256


def engine(blocks: int = BLOCKS, max_num_seqs: int = 8) -> Engine:
    return Engine(SPEED, blocks, max_num_seqs)


def first_s(happened: Sequence[Progress], number: int) -> float:
    return next(p.at_s for p in happened if p.sequence.number == number)


def alone_s(prompt_tokens: int, before: int = 0) -> float:
    """A step that only computes so much of one prompt."""
    return SPEED.decode_s(0) + SPEED.exposed_s(SPEED.prefill_s(prompt_tokens, before))


def test_first_tokens_come_in_the_order_of_arrival() -> None:
    to = engine(max_num_seqs=2)
    for tokens in (900, 10, 500, 1, 30, 1000):
        submit(to, 0.0, tokens, 20)
    firsts = [p.sequence.number for p in to.advance(100.0) if p.tokens == 1]
    assert firsts == [0, 1, 2, 3, 4, 5]


def test_those_who_reach_a_mark_together_are_told_in_the_order_of_admission() -> None:
    to = engine()
    submit(to, 0.0, 10, 2, delay_s=0.001)
    submit(to, 0.0, 10, 3)
    happened = to.advance(1.0)
    assert happened[-1].at_s == happened[-2].at_s
    assert [(p.sequence.number, p.finished) for p in happened[-2:]] == [(1, True), (0, True)]


def test_every_mark_is_reported_once_and_at_its_step() -> None:
    to = engine()
    submit(to, 0.0, 32, 57)
    happened = to.advance(100.0)
    assert [p.tokens for p in happened] == [1, 9, 17, 25, 33, 41, 49, 57]
    assert [p.finished for p in happened] == [False] * 7 + [True]
    assert [p.new_tokens for p in happened] == [1] + [8] * 7
    ends_s = [alone_s(32)]
    for kv_tokens in range(33, 89):
        ends_s.append(ends_s[-1] + SPEED.decode_s(1) + SPEED.context_s * kv_tokens)
    assert [p.at_s for p in happened] == [ends_s[p.tokens - 1] for p in happened]
    assert happened[0].gap_s is None
    assert happened[1].gap_s == (ends_s[8] - ends_s[0]) / 8


def test_a_prompt_that_finds_no_blocks_waits_and_nobody_overtakes_it() -> None:
    to = engine(blocks=64)
    first = submit(to, 0.0, 500, 100)
    big = submit(to, 0.0, 700, 100)
    small = submit(to, 0.0, 10, 1)
    to.advance(0.1)
    assert (to.running, to.waiting) == (1, 2)
    assert first.scheduled_s == 0.0 and big.scheduled_s is None and small.scheduled_s is None
    to.advance(100.0)
    assert big.first_token_s is not None and small.first_token_s is not None
    assert big.first_token_s <= small.first_token_s


def test_blocks_are_taken_as_tokens_are_computed_and_not_reserved() -> None:
    to = engine()
    submit(to, 0.0, 30, 2000, chunks=10_000)
    used = []
    while len(used) < 40:
        wake_s = to.next_wake_s()
        assert wake_s is not None
        to.advance(wake_s)
        used.append(to.kv_used_blocks)
    # The step in progress has its block: of 30 prompt tokens and one more, then 32, 33, ...
    assert used[1:] == [-(-(30 + token) // 16) for token in range(1, 40)]


def test_an_abort_frees_kv_for_the_next_one() -> None:
    to = engine(blocks=64)
    holder = submit(to, 0.0, 900, 100)
    waiting = submit(to, 0.0, 900, 100)
    to.advance(0.1)
    assert to.kv_used_blocks == 57
    to.abort(holder)
    assert to.kv_used_blocks == 0
    to.advance(0.2)
    assert waiting.scheduled_s is not None
    to.abort(holder)
    assert to.running == 1


def test_an_abort_in_mid_prefill_and_in_the_queue_leaves_nothing() -> None:
    to = engine(blocks=10_000, max_num_seqs=1)
    prefilling = submit(to, 0.0, 3 * STEP_TOKENS, 10)
    queued = submit(to, 0.0, 10, 10)
    to.advance(alone_s(STEP_TOKENS))
    assert prefilling.computed_tokens == 2 * STEP_TOKENS and prefilling.first_token_s is None
    to.abort(prefilling)
    to.abort(queued)
    to.advance(10.0)
    assert (to.running, to.waiting, to.kv_used_blocks) == (0, 0, 0)


def test_a_long_prompt_is_prefilled_in_chunks_while_others_decode() -> None:
    to = engine(blocks=10_000)
    submit(to, 0.0, 10, 50, chunks=50)
    to.advance(0.05)
    submit(to, 0.05, 3 * STEP_TOKENS, 1)
    happened = to.advance(100.0)
    long_s = first_s(happened, 1)
    during = [p for p in happened if p.sequence.number == 0 and 0.06 < p.at_s <= long_s]
    # The chunks leave room for it: three full ones, and three tokens' worth of a fourth.
    assert len(during) == 4
    assert sum(p.gap_s or 0.0 for p in during) > alone_s(STEP_TOKENS) * 3


def test_a_delay_keeps_a_request_out_and_does_not_hold_up_others() -> None:
    to = engine()
    submit(to, 0.0, 10, 2, delay_s=20.0)
    submit(to, 0.0, 10, 2)
    happened = to.advance(60.0)
    assert [p.sequence.number for p in happened] == [1, 1, 0, 0]
    assert happened[2].at_s == 20.0 + alone_s(10)


def test_one_that_is_still_in_the_frontend_does_not_wait_in_the_queue() -> None:
    to = Engine(Speed(0.02, 2**-7, 0, 0, 2**-15, 0, 0), BLOCKS, 1)
    submit(to, 0.0, 10, 2)
    second = submit(to, 0.0, 10, 2)
    to.advance(0.01)
    assert (to.running, to.waiting) == (0, 0)
    to.advance(0.021)
    assert (to.running, to.waiting) == (1, 1)
    assert second.ready_s == 0.02


def test_a_request_larger_than_the_pool_and_a_step_smaller_than_its_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="257 blocks exceed the KV pool of 256"):
        submit(engine(), 0.0, 4000, 97)
    with pytest.raises(ValueError, match="step_tokens = 7"):
        Engine(SPEED, BLOCKS, 8, step_tokens=7)


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ((0,), "at least 1"),
        ((100, (1,), 8), "multiple of 16"),
        ((100, (1,), 24), "multiple of 16"),
        ((31, (1, 2)), "more than the prompt's 31 tokens"),
        ((32, (1, -2)), "between 0 and"),
        ((32, (1, 2**64)), "between 0 and"),
    ],
)
def test_a_prompt_that_cannot_be_is_refused(fields: tuple[int], allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        Prompt(*fields)


def test_wakes_follow_the_marks_and_not_the_tokens() -> None:
    to = engine(blocks=12_500)
    submit(to, 0.0, 10, 100_000)
    wakes = 0
    while (wake_s := to.next_wake_s()) is not None:
        to.advance(wake_s)
        wakes += 1
    assert wakes < 20


def test_arrivals_at_a_full_batch_wake_nobody() -> None:
    to = engine(max_num_seqs=1)
    submit(to, 0.0, 10, 1000)
    to.advance(0.1)
    before_s = to.next_wake_s()
    submit(to, 0.1, 10, 1000)
    assert to.next_wake_s() == before_s


def test_busy_time_counts_the_steps_and_not_the_idle_time() -> None:
    to = engine()
    submit(to, 1.0, 32, 57)
    end_s = to.advance(50.0)[-1].at_s
    assert to.busy_s(50.0) == pytest.approx(end_s - 1.0)


def test_residence_is_the_mean_time_since_admission() -> None:
    to = engine()
    assert to.mean_residence_s(0.0) is None
    submit(to, 0.0, 32, 1000)
    to.advance(2.0)
    second = submit(to, 2.0, 32, 1000)
    to.advance(4.0)
    assert second.admitted_s == pytest.approx(2.0, abs=0.02)
    assert to.mean_residence_s(4.0) == pytest.approx((4.0 + 4.0 - second.admitted_s) / 2)


def test_the_residence_is_exact_again_whenever_the_engine_was_empty() -> None:
    """At such times the sum of the admissions is off by its rounding."""
    to = engine()
    for number in range(100):
        submit(to, 1e9 + number / 3, 16, 2)
        submit(to, 1e9 + number / 3 + 1 / 7, 16, 200)
        to.advance(1e9 + number / 3 + 0.3)
    to.advance(2e9)
    last = submit(to, 2e9 + 1 / 3, 16, 200)
    to.advance(2e9 + 1.0)
    assert to.running == 1 and to.mean_residence_s(2e9 + 1.0) == 2e9 + 1.0 - last.admitted_s


class TestPrefixCache:
    def test_a_hit_shortens_the_prefill_by_what_is_cached(self) -> None:
        to = engine()
        submit(to, 0.0, conversation(1, 1000), 1)
        to.advance(5.0)
        again = submit(to, 5.0, conversation(1, 1400), 1)
        happened = to.advance(10.0)
        # 62 full blocks of the first prompt are there.
        assert again.cached_tokens == 992
        assert happened[0].at_s == 5.0 + alone_s(1400 - 992, before=992)
        assert (to.prefix_queries_total, to.prefix_hits_total) == (2400, 992)

    def test_the_last_token_is_always_computed(self) -> None:
        to = engine()
        submit(to, 0.0, conversation(1, 160), 1)
        to.advance(5.0)
        again = submit(to, 5.0, conversation(1, 160), 1)
        happened = to.advance(10.0)
        assert again.cached_tokens == 144
        assert happened[0].at_s == 5.0 + alone_s(16, before=144)

    def test_equal_blocks_behind_a_different_one_do_not_count(self) -> None:
        to = engine()
        submit(to, 0.0, Prompt(64, (1, 2, 3, 4)), 1)
        to.advance(5.0)
        again = submit(to, 5.0, Prompt(80, (1, 9, 3, 4)), 1)
        to.advance(10.0)
        assert again.cached_tokens == 16

    def test_equal_names_of_pieces_of_other_sizes_are_not_equal(self) -> None:
        to = engine()
        submit(to, 0.0, Prompt(64, (1, 2, 3, 4)), 1)
        to.advance(5.0)
        again = submit(to, 5.0, Prompt(160, (1, 2), 64), 1)
        to.advance(10.0)
        assert again.cached_tokens == 0

    def test_prompts_in_one_step_share_their_beginning_and_its_blocks(self) -> None:
        to = engine()
        for _ in range(3):
            submit(to, 0.0, conversation(1, 320), 50)
        to.advance(0.1)
        assert to.prefix_hits_total == 2 * 304
        # 20 blocks of the first; the others have 19 of them and their own last one; each has one
        # for its answer.
        assert to.kv_used_blocks == 20 + 1 + 1 + 3

    def test_the_cache_is_lost_to_new_prompts_in_the_order_of_last_use(self) -> None:
        to = engine(blocks=64)
        for name in (1, 2):
            submit(to, 0.0, conversation(name, 480), 1)
            to.advance(5.0)
        submit(to, 5.0, conversation(3, 320), 1)
        to.advance(10.0)
        old, young = (submit(to, 10.0, conversation(name, 481), 1) for name in (1, 2))
        to.advance(15.0)
        # Of 64 blocks 4 were free; the other 16 for the third are the tail of the first, and the
        # first in turn takes the tail of the second when it comes again.
        assert old.cached_tokens == 16 * 14
        assert young.cached_tokens > 0

    def test_a_trace_of_large_pieces_is_kept_in_few_entries(self) -> None:
        to = engine(blocks=20_000)
        submit(to, 0.0, Prompt(85_000, tuple(range(166)), 512), 1)
        to.advance(60.0)
        again = submit(to, 60.0, Prompt(85_000, tuple(range(166)), 512), 1)
        to.advance(120.0)
        assert again.cached_tokens == 165 * 512 + 512
        assert len(to._scheduler.cache._free) < 200


class TestPreemption:
    """Two sequences that together outgrow a pool of 64 blocks."""

    def run(self) -> tuple[Engine, list[Progress]]:
        to = engine(blocks=64)
        submit(to, 0.0, 480, 200, chunks=200)
        submit(to, 0.0, 480, 200, chunks=200)
        return to, to.advance(100.0)

    def test_the_most_recently_admitted_one_gives_way_and_finishes_later(self) -> None:
        to, happened = self.run()
        assert to.preemptions_total == 1
        ends = [p.sequence.number for p in happened if p.finished]
        assert ends == [0, 1]
        gaps_s = [max(p.gap_s or 0.0 for p in happened if p.sequence.number == n) for n in (0, 1)]
        # The first never stands still; the second does until the first has ended.
        assert gaps_s[0] < 0.05 < gaps_s[1]

    def test_no_token_is_given_twice_or_lost(self) -> None:
        to, happened = self.run()
        for number in (0, 1):
            tokens = [p.tokens for p in happened if p.sequence.number == number]
            assert tokens == list(range(1, 201))
        assert to.generation_tokens_total == 400
        assert to.prompt_tokens_total == 960

    def test_its_prompt_and_its_answer_so_far_are_computed_again(self) -> None:
        to, happened = self.run()
        second = [p for p in happened if p.sequence.number == 1]
        stop = max(range(1, 200), key=lambda index: second[index].gap_s or 0.0)
        again = second[stop].tokens - 1 + 480
        # Once each for the prompt and all but the last token of two answers, and again.
        assert to.computed_tokens_total == 2 * (480 + 199) + again - 1

    def test_it_takes_what_the_cache_still_has_of_it(self) -> None:
        to = engine(blocks=64)
        submit(to, 0.0, 480, 200)
        submit(to, 0.0, conversation(1, 480), 200)
        to.advance(100.0)
        assert to.preemptions_total == 1
        assert to.computed_tokens_total < 2 * (480 + 199) + 480

    def test_it_is_the_first_to_come_back(self) -> None:
        to = engine(blocks=64)
        for _ in range(3):
            submit(to, 0.0, 480, 200)
        firsts: dict[int, float] = {}
        ends: list[int] = []
        for progress in to.advance(100.0):
            firsts.setdefault(progress.sequence.number, progress.at_s)
            ends += [progress.sequence.number] * progress.finished
        assert ends == [0, 1, 2]


class TestFaults:
    def test_slow_stretches_what_is_left_of_the_step_and_all_that_follow(self) -> None:
        plain, slowed = engine(), engine()
        for to in (plain, slowed):
            submit(to, 0.0, 32, 100)
            to.advance(0.1)
        slowed.slow(0.1, 3.0)
        expected = [0.1 + 3 * (p.at_s - 0.1) for p in plain.advance(100.0)]
        assert [p.at_s for p in slowed.advance(100.0)] == pytest.approx(expected)

    def test_back_to_normal_it_is_as_fast_as_before(self) -> None:
        to = engine()
        to.slow(0.0, 5.0)
        to.slow(0.0, 1.0)
        submit(to, 0.0, 32, 100)
        assert to.advance(100.0)[0].at_s == alone_s(32)

    def test_the_frontend_is_slow_too(self) -> None:
        to = Engine(Speed(0.02, 2**-7, 0, 0, 2**-15, 0, 0), BLOCKS, 1)
        to.slow(0.0, 4.0)
        assert submit(to, 0.0, 10, 2).ready_s == 0.08

    def test_a_hanging_engine_does_nothing_and_goes_on_in_the_middle_of_the_step(self) -> None:
        plain, hung = engine(), engine()
        for to in (plain, hung):
            submit(to, 0.0, 32, 100)
            to.advance(0.1)
        hung.hold(0.1, True)
        hung.hold(0.1, True)
        assert hung.next_wake_s() is None and hung.advance(5.0) == []
        busy_s = hung.busy_s(5.0)
        late = submit(hung, 5.0, 32, 1)
        hung.hold(7.1, False)
        assert hung.busy_s(7.1) == pytest.approx(busy_s) == pytest.approx(0.1)
        happened = hung.advance(100.0)
        assert happened[0].at_s == pytest.approx(plain.advance(100.0)[0].at_s + 7.0, abs=0.02)
        assert late.scheduled_s is not None and late.scheduled_s > 7.1

    def test_one_that_comes_to_an_idle_hanging_engine_begins_when_it_goes_on(self) -> None:
        to = engine()
        to.hold(0.0, True)
        submit(to, 1.0, 32, 1)
        assert to.next_wake_s() is None
        to.hold(9.0, False)
        assert to.next_wake_s() == 9.0
        assert to.advance(20.0)[0].at_s == 9.0 + alone_s(32)


@pytest.mark.parametrize(("output", "chunks"), [(1, 8), (7, 8), (8, 8), (9, 8), (1000, 2)])
def test_coarse_marks_begin_at_one_end_at_the_length_and_rise(output: int, chunks: int) -> None:
    marks = list(coarse_marks(output, chunks))
    assert marks[0] == 1 and marks[-1] == output
    assert len(marks) == min(output, chunks)
    assert all(low < high for low, high in itertools.pairwise(marks))
