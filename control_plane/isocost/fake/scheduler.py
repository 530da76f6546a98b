"""Who computes what in the next step: the rules of vLLM V1, first come first served.

As in vllm/v1/core/sched/scheduler.py: running sequences first, one token for each that decodes,
then the next chunk of a prompt under way, then prompts from the queue while sequences, tokens and
blocks allow. Blocks are taken as tokens are computed; when a decoding sequence finds none, the most
recently admitted one is preempted.
"""

from __future__ import annotations

from collections import deque

from isocost.fake.decoding import DecodingSet
from isocost.fake.kv_cache import KvCache, blocks_of
from isocost.fake.sequence import Sequence
from isocost.fake.steps import StepRun


class Scheduler:
    """ValueError: a step has not even room for one token of every sequence."""

    def __init__(self, kv_blocks: int, max_num_seqs: int, step_tokens: int) -> None:
        if step_tokens < max_num_seqs:
            raise ValueError(f"step_tokens = {step_tokens} is less than {max_num_seqs} sequences")
        self._max_num_seqs = max_num_seqs
        self._step_tokens = step_tokens
        self._queue: deque[Sequence] = deque()
        self._partial: Sequence | None = None
        self._admissions = 0
        self._admissions_s = 0.0
        self.cache = KvCache(kv_blocks)
        #: By number in the order of their admission, the last is the first to be preempted.
        self.running: dict[int, Sequence] = {}
        self.decoding = DecodingSet()
        self.waiting = 0
        #: Steps begun so far.
        self.steps = 0
        #: The next step can have other members than this one although nobody arrived or ended.
        self.changed = False
        self.computed_tokens = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.preemptions = 0

    @property
    def open(self) -> bool:
        """Whether one that arrives now could be admitted to the next step."""
        return not self._queue and len(self.running) < self._max_num_seqs

    def mean_admission_s(self) -> float | None:
        """When the running sequences were admitted; None without any."""
        return self._admissions_s / len(self.running) if self.running else None

    def enqueue(self, sequence: Sequence) -> None:
        sequence.queued = True
        self._queue.append(sequence)
        self.waiting += 1

    def forget(self, sequence: Sequence) -> None:
        """Of an aborted one, wherever it is; its blocks are free at once."""
        self.changed = True
        if sequence.number in self.running:
            self.leave(sequence)
        elif sequence.queued:
            self.waiting -= 1

    def form(self, at_s: float) -> StepRun | None:
        """The next step; None = nobody has anything to compute."""
        decoding, preempted = self.decoding, self.preemptions
        while (needed := decoding.blocks_needed(self.steps, 1)) > self.cache.free_blocks:
            self._preempt()
        self.cache.take(needed)
        self.steps += 1
        self.computed_tokens += decoding.count
        run = StepRun(at_s, decoding.count)
        budget = self._step_tokens - decoding.count
        if self._partial is not None:
            budget -= self._continue(run, self._partial, budget)
        # As vLLM: a step that had to preempt admits nobody, the next one may.
        self.changed = self.preemptions > preempted
        while budget > 0 and not self.changed and (tokens := self._admit(run, budget)):
            budget -= tokens
        return run if run.decoding or run.prefill else None

    def most_steps(self, count: int) -> int:
        """As many of ``count`` steps as the free blocks allow; the first has its own already."""
        free = self.cache.free_blocks
        return 1 + self.decoding.steps_within(self.steps, count - 1, free)

    def repeat(self, steps: int) -> None:
        """So many more steps of the same members were made."""
        self.cache.take(self.decoding.blocks_needed(self.steps, steps))
        self.steps += steps
        self.computed_tokens += steps * self.decoding.count

    def decode(self, sequence: Sequence) -> None:
        """Its prompt is computed: from the next step on it decodes."""
        sequence.offset = sequence.computed_tokens - self.steps
        self.decoding.add(sequence.offset)

    def leave(self, sequence: Sequence) -> None:
        """Out of the running ones; its blocks are free."""
        del self.running[sequence.number]
        # Sums of floats drift: from 0 again whenever the engine is empty.
        self._admissions_s = self._admissions_s - sequence.admitted_s if self.running else 0.0
        tokens = sequence.computed_tokens
        if sequence.offset is not None:
            tokens = sequence.offset + self.steps
            self.decoding.remove(sequence.offset)
            sequence.offset = None
        elif self._partial is sequence:
            self._partial = None
        nameless = blocks_of(tokens) - len(sequence.held) * sequence.piece_blocks
        self.cache.release(sequence.held, sequence.piece_blocks, nameless)
        sequence.held = []

    def _continue(self, run: StepRun, partial: Sequence, budget: int) -> int:
        """The next chunk of the one prompt that is under way; without room it is preempted."""
        computed = partial.computed_tokens
        tokens = min(partial.prefill_tokens - computed, budget)
        if blocks_of(computed + tokens) - blocks_of(computed) > self.cache.free_blocks:
            self._preempt()
            return 0
        self._chunk(run, partial, tokens)
        return tokens

    def _admit(self, run: StepRun, budget: int) -> int:
        """Take the head of the queue if there is room for it; nobody overtakes it. Its tokens."""
        while self._queue and self._queue[0].ended:
            self._queue.popleft()
        if not self._queue or len(self.running) >= self._max_num_seqs:
            return 0
        head = self._queue[0]
        size = head.prompt.hash_tokens
        # The last token is always computed: the next one comes from it.
        limit = min(len(head.pieces), (head.prefill_tokens - 1) // size)
        found = self.cache.found(head.pieces, limit)
        cached = found * size
        tokens = min(head.prefill_tokens - cached, budget)
        held = list(head.pieces[:found])
        if not self.cache.fits(held, blocks_of(cached + tokens) - blocks_of(cached)):
            return 0
        self._queue.popleft()
        self.waiting -= 1
        self.cache.hold(held)
        self._admissions_s += run.start_s
        self.running[head.number] = head
        head.queued = False
        head.held = held
        head.published = found
        head.computed_tokens = cached
        head.admitted_s = run.start_s
        head.admission = self._admissions
        self._admissions += 1
        if head.scheduled_s is None:
            head.scheduled_s = run.start_s
            head.cached_tokens = cached
            self.prefix_queries += head.prompt.tokens
            self.prefix_hits += cached
        self._chunk(run, head, tokens)
        return tokens

    def _chunk(self, run: StepRun, sequence: Sequence, tokens: int) -> None:
        """Compute the next tokens of a prompt in this step. Its full pieces can be found at once,
        even by the next one admitted to the same step, as in vLLM.
        """
        before = sequence.computed_tokens
        after = before + tokens
        self.cache.take(blocks_of(after) - blocks_of(before))
        full = min(after // sequence.prompt.hash_tokens, len(sequence.pieces))
        publish = self.cache.publish
        sequence.held += [p for p in sequence.pieces[sequence.published : full] if publish(p)]
        sequence.published = full
        sequence.computed_tokens = after
        self.computed_tokens += tokens
        run.prefill.append(sequence)
        run.chunks.append((tokens, before))
        self._partial = sequence if after < sequence.prefill_tokens else None

    def _preempt(self) -> None:
        """Put the most recently admitted back to the head of the queue; all is computed again."""
        victim = next(reversed(self.running.values()))
        if victim.offset is not None:
            # Its tokens in the KV cache, and the one it just got.
            victim.prefill_tokens = victim.offset + self.steps + 1
        self.leave(victim)
        victim.computed_tokens = 0
        victim.queued = True
        self._queue.appendleft(victim)
        self.waiting += 1
        self.preemptions += 1
