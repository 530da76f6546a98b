"""The engine model: its invariants under any traffic, and the measurements it was fitted to."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.fake.cards import Hardware, Speed
from isocost.fake.engine import STEP_TOKENS, Engine, Progress, Sequence, coarse_marks

#: Binary fractions, so that sums of step times are exact.
SPEED = Speed(
    frontend_s=0.0, step_base_s=0.0078125, step_per_sequence_s=2.0**-14, prefill_tokens_per_s=2**15
)
POOL = 4096


def engine(pool: int = POOL, max_num_seqs: int = 8, speed: Speed = SPEED) -> Engine:
    return Engine(speed, pool, max_num_seqs)


def submit(
    to: Engine, now_s: float, prompt: int, output: int, chunks: int = 8, delay_s: float = 0.0
) -> Sequence:
    return to.submit(now_s, prompt, coarse_marks(output, chunks), delay_s)


#: gap before it arrives, prompt, output, and after how long its client hangs up.
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.001, 0.01, 0.25, 2.0]),
        st.integers(1, 3000),
        st.integers(1, 600),
        st.one_of(st.none(), st.sampled_from([0.0, 0.003, 0.1, 1.0])),
    ),
    min_size=1,
    max_size=25,
)


def replay(
    requests: list[tuple[float, int, int, float | None]], step_s: float | None
) -> tuple[Engine, list[Sequence], list[Progress]]:
    """Run a schedule to its end, looking at the engine every ``step_s``, or only when something
    arrives or leaves.
    """
    to = engine()
    happened: list[Progress] = []
    sequences: list[Sequence] = []
    now_s = 0.0
    arrivals = itertools.accumulate(gap for gap, *_ in requests)
    actions: list[tuple[float, int, int]] = []
    for index, (arrival_s, (_, _, _, patience_s)) in enumerate(
        zip(arrivals, requests, strict=True)
    ):
        actions.append((arrival_s, index, 0))
        if patience_s is not None:
            actions.append((arrival_s + patience_s, index, 1))
    actions.append((actions[-1][0] + 600.0, -1, 2))
    for at_s, index, what in sorted(actions):
        while step_s is not None and now_s + step_s < at_s and to.next_wake_s() is not None:
            now_s += step_s
            happened += to.advance(now_s)
            check_bounds(to)
        now_s = at_s
        happened += to.advance(now_s)
        check_bounds(to)
        if what == 0:
            _, prompt, output, _ = requests[index]
            sequences.append(submit(to, now_s, prompt, output))
        elif what == 1:
            to.abort(sequences[index])
        check_bounds(to)
    return to, sequences, happened


def check_bounds(of: Engine) -> None:
    assert 0 <= of.kv_used_tokens <= of.kv_pool_tokens
    assert 0 <= of.running <= 8
    assert of.waiting >= 0


@settings(max_examples=60, deadline=None)
@given(REQUESTS)
def test_whatever_comes_all_finish_or_were_aborted_and_all_kv_is_free(
    requests: list[tuple[float, int, int, float | None]],
) -> None:
    to, sequences, happened = replay(requests, step_s=0.05)
    finished = [progress.sequence for progress in happened if progress.finished]
    assert len(finished) == len({sequence.number for sequence in finished})
    for sequence, (_, _, _, patience_s) in zip(sequences, requests, strict=True):
        assert sequence.ended
        if patience_s is None:
            assert sequence in finished
    assert (to.running, to.waiting, to.kv_used_tokens) == (0, 0, 0)
    assert to.next_wake_s() is None


@settings(max_examples=60, deadline=None)
@given(REQUESTS)
def test_first_tokens_come_in_the_order_of_arrival(
    requests: list[tuple[float, int, int, float | None]],
) -> None:
    _, _, happened = replay(requests, step_s=None)
    firsts = [progress.sequence.number for progress in happened if progress.tokens == 1]
    assert firsts == sorted(firsts)


@settings(max_examples=60, deadline=None)
@given(REQUESTS)
def test_a_late_look_finds_what_constant_looking_would_have_found(
    requests: list[tuple[float, int, int, float | None]],
) -> None:
    _, _, late = replay(requests, step_s=None)
    _, _, constant = replay(requests, step_s=0.004)
    assert [(p.sequence.number, p.tokens) for p in late] == [
        (p.sequence.number, p.tokens) for p in constant
    ]
    assert [p.at_s for p in late] == pytest.approx([p.at_s for p in constant])


def test_every_mark_is_reported_once_and_at_its_step() -> None:
    to = engine()
    submit(to, 0.0, 32, 57)
    happened = to.advance(100.0)
    assert [p.tokens for p in happened] == [1, 9, 17, 25, 33, 41, 49, 57]
    assert [p.finished for p in happened] == [False] * 7 + [True]
    first_s = SPEED.step_base_s + 32 / SPEED.prefill_tokens_per_s
    step_s = SPEED.step_base_s + SPEED.step_per_sequence_s
    assert [p.at_s for p in happened] == [first_s + (p.tokens - 1) * step_s for p in happened]


def test_a_request_that_does_not_fit_waits_and_nobody_overtakes_it() -> None:
    to = engine(pool=1000)
    first = submit(to, 0.0, 500, 100)
    big = submit(to, 0.0, 700, 100)
    small = submit(to, 0.0, 10, 1)
    to.advance(0.1)
    assert (to.running, to.waiting) == (1, 2)
    assert first.admitted and not big.admitted and not small.admitted
    to.advance(100.0)
    assert big.first_token_s is not None and small.first_token_s is not None
    assert big.first_token_s <= small.first_token_s


def test_an_abort_frees_kv_for_the_next_one() -> None:
    to = engine(pool=1000)
    holder = submit(to, 0.0, 900, 100)
    waiting = submit(to, 0.0, 900, 100)
    to.advance(0.1)
    used = to.kv_used_tokens
    assert used > 900
    to.abort(holder)
    assert to.kv_used_tokens == 0
    to.advance(0.2)
    assert waiting.admitted
    to.abort(holder)
    assert to.running == 1


def test_an_abort_in_mid_prefill_and_in_the_queue_leaves_nothing() -> None:
    to = engine(pool=100_000, max_num_seqs=1)
    prefilling = submit(to, 0.0, 3 * STEP_TOKENS, 10)
    queued = submit(to, 0.0, 10, 10)
    to.advance(0.3)
    assert prefilling.prefilled_tokens == STEP_TOKENS and prefilling.first_token_s is None
    to.abort(prefilling)
    to.abort(queued)
    to.advance(10.0)
    assert (to.running, to.waiting, to.kv_used_tokens) == (0, 0, 0)


def test_a_long_prompt_is_prefilled_in_chunks_while_others_decode() -> None:
    to = engine(pool=100_000)
    submit(to, 0.0, 10, 50)
    to.advance(0.05)
    submit(to, 0.05, 3 * STEP_TOKENS, 1)
    happened = to.advance(100.0)
    long_s = next(p.at_s for p in happened if p.sequence.number == 1)
    tokens = [p.tokens for p in happened if p.sequence.number == 0 and p.at_s < long_s]
    # The chunks leave room for it: it goes on by one token a step, four steps long.
    assert 0 < len(tokens) < 8


def test_a_delay_keeps_a_request_out_and_does_not_hold_up_others() -> None:
    to = engine()
    submit(to, 0.0, 10, 2, delay_s=20.0)
    submit(to, 0.0, 10, 2)
    happened = to.advance(60.0)
    assert [p.sequence.number for p in happened] == [1, 1, 0, 0]
    assert happened[2].at_s == pytest.approx(20.0 + SPEED.step_base_s, rel=1e-3)


def test_a_request_larger_than_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="4097 tokens"):
        submit(engine(), 0.0, 4000, 97)


def test_wakes_follow_the_marks_and_not_the_tokens() -> None:
    to = engine(pool=200_000)
    submit(to, 0.0, 10, 100_000)
    wakes = 0
    while (wake_s := to.next_wake_s()) is not None:
        to.advance(wake_s)
        wakes += 1
    assert wakes < 20


def test_busy_time_counts_the_steps_and_not_the_idle_time() -> None:
    to = engine()
    submit(to, 0.0, 32, 57)
    end_s = to.advance(50.0)[-1].at_s
    assert to.busy_s(50.0) == pytest.approx(end_s)


@pytest.mark.parametrize(("output", "chunks"), [(1, 8), (7, 8), (8, 8), (9, 8), (1000, 2)])
def test_coarse_marks_begin_at_one_end_at_the_length_and_rise(output: int, chunks: int) -> None:
    marks = list(coarse_marks(output, chunks))
    assert marks[0] == 1 and marks[-1] == output
    assert len(marks) == min(output, chunks)
    assert all(low < high for low, high in itertools.pairwise(marks))


def fitted(kind: str) -> Engine:
    hardware = Hardware(kind, 1)
    return Engine(hardware.speed, hardware.kv_pool_tokens, 128)


def test_an_unloaded_h100_answers_as_measured() -> None:
    to = fitted("H100")
    submit(to, 0.0, 204, 63)
    happened = to.advance(10.0)
    assert happened[0].at_s == pytest.approx(0.031, abs=0.0005)
    per_token_s = (happened[-1].at_s - happened[0].at_s) / 62
    assert per_token_s == pytest.approx(0.0072, abs=0.0001)


def throughput(kind: str, offered_per_s: float) -> float:
    """Requests finished a second, 204 tokens in and 62 out, in the second half of 20 s."""
    to = fitted(kind)
    finished = 0
    for number in range(int(20 * offered_per_s)):
        now_s = number / offered_per_s
        finished += sum(p.finished for p in to.advance(now_s) if p.at_s > 10)
        submit(to, now_s, 204, 62, chunks=2)
    return finished / 10


def test_a_saturated_h100_serves_as_measured_and_an_a100_about_half() -> None:
    assert throughput("H100", 150) == pytest.approx(103, rel=0.03)
    assert throughput("A100", 150) == pytest.approx(51, rel=0.1)


def test_at_half_load_an_h100_takes_about_the_measured_time_per_token() -> None:
    to = fitted("H100")
    times = []
    for number in range(600):
        now_s = number / 61.8
        for progress in to.advance(now_s):
            if progress.finished and progress.at_s > 5:
                assert progress.sequence.first_token_s is not None
                times.append((progress.at_s - progress.sequence.first_token_s) / 61)
        submit(to, now_s, 204, 62, chunks=2)
    # Measured 10.3 ms at this rate; the model's straight line runs a little above it.
    assert sum(times) / len(times) == pytest.approx(0.0103, rel=0.15)


def test_more_cards_hold_more_kv_and_prefill_faster() -> None:
    one, four = Hardware("H100", 1), Hardware("H100", 4)
    assert four.kv_pool_tokens > 4 * one.kv_pool_tokens
    assert four.speed.prefill_tokens_per_s > 2 * one.speed.prefill_tokens_per_s
