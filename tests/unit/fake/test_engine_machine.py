"""Whatever comes, leaves, hangs and slows down: the engine's books are right after every step."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isocost.fake.engine import Engine
from isocost.fake.kv_cache import blocks_of
from isocost.fake.sequence import Progress, Prompt, Sequence
from tests.unit.fake.engines import SPEED, submit

POOL = 160
MAX_SEQS = 5


class Traffic(RuleBasedStateMachine):
    """Prompts of pieces of 16 and of 512 tokens share beginnings and the pool."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(SPEED, POOL, MAX_SEQS, step_tokens=512)
        self.now_s = 0.0
        self.sequences: list[Sequence] = []
        self.happened: list[Progress] = []
        self.aborted_tokens = 0

    @rule(
        name=st.integers(0, 2),
        piece_tokens=st.sampled_from([16, 512]),
        tokens=st.integers(1, 2000),
        output=st.integers(1, 500),
        delay_s=st.sampled_from([0.0, 0.3]),
    )
    def arrive(
        self, name: int, piece_tokens: int, tokens: int, output: int, delay_s: float
    ) -> None:
        pieces = range(name * 1000, name * 1000 + tokens // piece_tokens)
        prompt = Prompt(tokens, tuple(pieces), piece_tokens)
        self.sequences.append(submit(self.engine, self.now_s, prompt, output, 8, delay_s))

    @precondition(lambda self: self.sequences)
    @rule(choose=st.data())
    def hang_up(self, choose: st.DataObject) -> None:
        sequence = choose.draw(st.sampled_from(self.sequences))
        if not sequence.ended:
            self.aborted_tokens += self.generated(sequence)
        self.engine.abort(sequence)
        assert sequence.ended and not sequence.held

    @rule(elapsed_s=st.sampled_from([0.001, 0.02, 0.5, 3.0]))
    def advance(self, elapsed_s: float) -> None:
        self.now_s += elapsed_s
        before = self.engine.generation_tokens_total
        happened = self.engine.advance(self.now_s)
        assert all(self.now_s - elapsed_s <= p.at_s <= self.now_s for p in happened)
        assert self.engine.generation_tokens_total >= before + sum(p.tokens == 1 for p in happened)
        self.happened += happened

    @rule(factor=st.sampled_from([0.5, 1.0, 4.0]))
    def slow(self, factor: float) -> None:
        self.engine.slow(self.now_s, factor)

    @rule(hanging=st.booleans())
    def hang(self, hanging: bool) -> None:
        self.engine.hold(self.now_s, hanging)

    def generated(self, sequence: Sequence) -> int:
        tokens = sequence.prefill_tokens
        if sequence.offset is not None:
            tokens = sequence.offset + self.engine._scheduler.steps
        return tokens - sequence.prompt.tokens

    @invariant()
    def what_is_used_is_what_running_sequences_hold(self) -> None:
        pieces: dict[int, int] = {}
        nameless = 0
        for sequence in self.engine._scheduler.running.values():
            tokens = sequence.computed_tokens
            if sequence.offset is not None:
                tokens = sequence.offset + self.engine._scheduler.steps
            pieces |= dict.fromkeys(sequence.held, sequence.piece_blocks)
            nameless += blocks_of(tokens) - len(sequence.held) * sequence.piece_blocks
            assert not sequence.ended
        assert self.engine.kv_used_blocks == sum(pieces.values()) + nameless
        assert 0 <= self.engine.kv_used_blocks <= POOL
        cache = self.engine._scheduler.cache
        assert cache.free_blocks == sum(cache._free.values())

    @invariant()
    def the_limits_hold(self) -> None:
        assert 0 <= self.engine.running <= MAX_SEQS
        queued = [sequence for sequence in self.sequences if sequence.queued]
        assert self.engine.waiting == sum(not sequence.ended for sequence in queued)

    def teardown(self) -> None:
        """Everybody ends: nobody is lost, nobody is stuck, and no token is counted twice."""
        self.engine.hold(self.now_s, False)
        self.happened += self.engine.advance(self.now_s + 1e5)
        assert all(sequence.ended for sequence in self.sequences)
        finished = [p.sequence for p in self.happened if p.finished]
        assert len(finished) == len(set(finished))
        output_tokens = sum(sequence.output_tokens for sequence in finished)
        assert self.engine.generation_tokens_total == output_tokens + self.aborted_tokens
        for sequence in finished:
            tokens = [p.tokens for p in self.happened if p.sequence is sequence]
            assert tokens == list(sequence.marks)
        assert (self.engine.running, self.engine.waiting, self.engine.kv_used_blocks) == (0, 0, 0)
        assert self.engine.next_wake_s() is None


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
