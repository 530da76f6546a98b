"""The engine takes equal steps together and counts blocks in bulk: with the same outcome as the
reference, which takes them one by one.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.fake.engine import Engine
from isocost.fake.sequence import Progress
from tests.unit.fake.engines import SPEED, conversation, submit
from tests.unit.fake.reference_engine import ReferenceEngine

#: Small, so that it is full often; the longest request alone fits.
POOL = 48
MAX_SEQS = 6
STEP_TOKENS = 256
#: Gap before it arrives, conversation, prompt, output, delay, and when its client hangs up.
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.001, 0.03, 0.25, 4.0]),
        st.integers(0, 3),
        st.integers(1, 500),
        st.integers(1, 200),
        st.sampled_from([0.0, 0.0, 0.05]),
        st.one_of(st.none(), st.sampled_from([0.0, 0.003, 0.1, 1.0])),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=200, deadline=None)
@given(REQUESTS)
def test_steps_taken_together_are_the_steps_taken_one_by_one(
    requests: list[tuple[float, int, int, int, float, float | None]],
) -> None:
    engine = Engine(SPEED, POOL, MAX_SEQS, STEP_TOKENS)
    reference = ReferenceEngine(SPEED, POOL, MAX_SEQS, STEP_TOKENS)
    arrivals = itertools.accumulate(gap for gap, *_ in requests)
    actions = []
    for index, (arrival_s, request) in enumerate(zip(arrivals, requests, strict=True)):
        actions.append((arrival_s, index, 0))
        if request[-1] is not None:
            actions.append((arrival_s + request[-1], index, 1))
    happened: list[Progress] = []
    pairs = {}
    for now_s, index, what in [*sorted(actions), (1e4, -1, 2)]:
        happened += engine.advance(now_s)
        reference.advance(now_s)
        if what == 0:
            _, name, tokens, output, delay_s, _ = requests[index]
            prompt = conversation(name, tokens)
            mine = submit(engine, now_s, prompt, output, 8, delay_s)
            pairs[index] = mine, reference.submit(index, now_s + delay_s, prompt, output)
        elif what == 1:
            engine.abort(pairs[index][0])
            reference.abort(pairs[index][1])
        assert engine.kv_used_blocks == reference.used
        assert engine.running == len(reference.running)
        assert engine.waiting == len(reference.queue)
    assert engine.preemptions_total == reference.preemptions
    assert engine.prefix_hits_total == reference.hits
    assert engine.generation_tokens_total == len(reference.tokens)
    times = {(number, tokens): at_s for number, tokens, at_s in reference.tokens}
    assert [p.at_s for p in happened] == pytest.approx(
        [times[p.sequence.number, p.tokens] for p in happened], rel=1e-9
    )
