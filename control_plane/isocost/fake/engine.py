"""A small model of a continuous-batching engine: queue, chunked prefill, decode, KV pool.

Pure: time comes in as an argument. A step advances every decoding sequence by one token, so its
cost here does not depend on the batch, and steps that differ in nothing are taken together.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence as Marks
from dataclasses import dataclass, field

from isocost.fake.cards import Speed

#: Tokens of one step, vLLM's default max_num_batched_tokens for a server on these cards.
STEP_TOKENS = 8192


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the engine. ``marks`` are the ascending token counts worth reporting: the
    first is 1, the last the length of the answer.
    """

    number: int
    prompt_tokens: int
    marks: Marks[int]
    submitted_s: float
    ended: bool = False
    admitted: bool = False
    prefilled_tokens: int = 0
    #: The step that gave the first token.
    first_step: int | None = None
    first_token_s: float | None = None
    next_mark: int = 0

    @property
    def output_tokens(self) -> int:
        return self.marks[-1]

    @property
    def kv_tokens(self) -> int:
        """What it may hold at its end; reserved at admission, so that nothing is preempted."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Progress:
    """A sequence reached one of its marks; ``finished`` at the last."""

    sequence: Sequence
    tokens: int
    at_s: float
    finished: bool


@dataclass(slots=True)
class _Step:
    """The step in progress; its length was fixed when it began."""

    start_s: float
    length_s: float
    decoding: int
    prefill: list[tuple[Sequence, int]] = field(default_factory=list)


class Engine:
    """First come, first served; at most ``max_num_seqs`` at once, and what the KV pool holds."""

    def __init__(self, speed: Speed, kv_pool_tokens: int, max_num_seqs: int) -> None:
        self._speed = speed
        self._max_num_seqs = max_num_seqs
        self._numbers = 0
        self._incoming: list[tuple[float, int, Sequence]] = []
        self._queue: deque[Sequence] = deque()
        self._partial: Sequence | None = None
        self._marks: list[tuple[int, int, Sequence]] = []
        self._step: _Step | None = None
        self._steps = 0
        self._decoding = 0
        self._kv_reserved = 0
        self._busy_s = 0.0
        self.kv_pool_tokens = kv_pool_tokens
        self.running = 0
        self.waiting = 0
        self.kv_used_tokens = 0
        self.prompt_tokens_total = 0
        self.generation_tokens_total = 0

    def submit(
        self, now_s: float, prompt_tokens: int, marks: Marks[int], delay_s: float = 0.0
    ) -> Sequence:
        """Enter a request, ``delay_s`` later than the frontend alone would let it through.

        The caller has advanced the engine to ``now_s``. ValueError: it can never fit the KV pool.
        """
        sequence = Sequence(self._numbers, prompt_tokens, marks, now_s)
        if sequence.kv_tokens > self.kv_pool_tokens:
            raise ValueError(f"{sequence.kv_tokens} tokens exceed the KV pool")
        self._numbers += 1
        ready_s = now_s + self._speed.frontend_s + delay_s
        heapq.heappush(self._incoming, (ready_s, sequence.number, sequence))
        self.waiting += 1
        return sequence

    def abort(self, sequence: Sequence) -> None:
        """Forget a request, wherever it is; its KV is free at once."""
        if sequence.ended:
            return
        sequence.ended = True
        if sequence.admitted:
            if sequence.first_step is not None:
                self._decoding -= 1
            self._release(sequence, sequence.prefilled_tokens + self._tokens(sequence))
        else:
            self.waiting -= 1

    def advance(self, now_s: float) -> list[Progress]:
        """Run until ``now_s``; everything that happened, in order, with its exact time."""
        happened: list[Progress] = []
        while True:
            if self._step is None:
                ready_s = self._next_incoming_s()
                if ready_s is None or ready_s > now_s:
                    return happened
                self._begin(ready_s)
            elif self._step.start_s + self._step.length_s > now_s:
                return happened
            else:
                self._complete(self._step, self._equal_steps(self._step, now_s), happened)

    def next_wake_s(self) -> float | None:
        """When ``advance`` will next have something to do; None = not before a submit."""
        if self._step is None:
            return self._next_incoming_s()
        return self._step.start_s + self._equal_steps(self._step, None) * self._step.length_s

    def busy_s(self, now_s: float) -> float:
        """Seconds spent in steps so far."""
        return self._busy_s + (max(now_s - self._step.start_s, 0.0) if self._step else 0.0)

    def _tokens(self, sequence: Sequence) -> int:
        return 0 if sequence.first_step is None else self._steps - sequence.first_step + 1

    def _release(self, sequence: Sequence, held_tokens: int) -> None:
        self.running -= 1
        self._kv_reserved -= sequence.kv_tokens
        self.kv_used_tokens -= held_tokens

    def _next_incoming_s(self) -> float | None:
        while self._incoming and self._incoming[0][2].ended:
            heapq.heappop(self._incoming)
        return self._incoming[0][0] if self._incoming else None

    def _next_mark_step(self) -> int | None:
        while self._marks and self._marks[0][2].ended:
            heapq.heappop(self._marks)
        return self._marks[0][0] if self._marks else None

    def _admissible(self) -> Sequence | None:
        """The head of the queue if there is room for it; nobody overtakes it."""
        while self._queue and self._queue[0].ended:
            self._queue.popleft()
        if not self._queue or self.running >= self._max_num_seqs:
            return None
        head = self._queue[0]
        return head if self._kv_reserved + head.kv_tokens <= self.kv_pool_tokens else None

    def _begin(self, at_s: float) -> None:
        """Form the next step from what runs and what the queue and the pool allow."""
        while (ready_s := self._next_incoming_s()) is not None and ready_s <= at_s:
            self._queue.append(heapq.heappop(self._incoming)[2])
        budget = max(STEP_TOKENS - self._decoding, 1)
        step = _Step(at_s, 0.0, self._decoding)
        if self._partial is not None:
            budget -= self._prefill(step, self._partial, budget)
        while budget > 0 and (head := self._admissible()) is not None:
            self._queue.popleft()
            head.admitted = True
            self.waiting -= 1
            self.running += 1
            self._kv_reserved += head.kv_tokens
            budget -= self._prefill(step, head, budget)
        if not step.decoding and not step.prefill:
            self._step = None
            return
        step.length_s = (
            self._speed.step_base_s
            + self._speed.step_per_sequence_s * step.decoding
            + sum(tokens for _, tokens in step.prefill) / self._speed.prefill_tokens_per_s
        )
        self._step = step

    @staticmethod
    def _prefill(step: _Step, sequence: Sequence, budget: int) -> int:
        tokens = min(sequence.prompt_tokens - sequence.prefilled_tokens, budget)
        step.prefill.append((sequence, tokens))
        return tokens

    def _equal_steps(self, step: _Step, now_s: float | None) -> int:
        """How many steps from this one on are alike: nobody enters, leaves or reaches a mark."""
        next_mark = self._next_mark_step()
        if (
            step.prefill
            or next_mark is None
            or step.decoding != self._decoding
            or self._admissible() is not None
        ):
            return 1
        count = next_mark - self._steps
        if (ready_s := self._next_incoming_s()) is not None:
            count = min(count, math.ceil((ready_s - step.start_s) / step.length_s))
        if now_s is not None:
            count = min(count, int((now_s - step.start_s) / step.length_s))
        return max(count, 1)

    def _complete(self, step: _Step, count: int, happened: list[Progress]) -> None:
        """End ``count`` equal steps, report the marks reached, and begin the next."""
        at_s = step.start_s + count * step.length_s
        self._busy_s += count * step.length_s
        self._steps += count
        self._gain(count * self._decoding)
        self._partial = None
        for sequence, tokens in step.prefill:
            if sequence.ended:
                continue
            sequence.prefilled_tokens += tokens
            self.kv_used_tokens += tokens
            if sequence.prefilled_tokens < sequence.prompt_tokens:
                self._partial = sequence
                continue
            self.prompt_tokens_total += sequence.prompt_tokens
            sequence.first_step = self._steps
            sequence.first_token_s = at_s
            self._decoding += 1
            self._gain(1)
            heapq.heappush(self._marks, (self._steps, sequence.number, sequence))
        while (due := self._next_mark_step()) is not None and due <= self._steps:
            sequence = heapq.heappop(self._marks)[2]
            happened.append(self._reach(sequence, at_s))
        self._begin(at_s)

    def _gain(self, tokens: int) -> None:
        self.kv_used_tokens += tokens
        self.generation_tokens_total += tokens

    def _reach(self, sequence: Sequence, at_s: float) -> Progress:
        tokens = self._tokens(sequence)
        finished = tokens >= sequence.output_tokens
        if finished:
            sequence.ended = True
            self._decoding -= 1
            self._release(sequence, sequence.prompt_tokens + tokens)
        else:
            sequence.next_mark += 1
            due = self._steps + sequence.marks[sequence.next_mark] - tokens
            heapq.heappush(self._marks, (due, sequence.number, sequence))
        return Progress(sequence, tokens, at_s, finished)


def coarse_marks(output_tokens: int, chunks: int) -> Marks[int]:
    """Token counts at which an answer is reported in at most ``chunks`` (>= 2) pieces: the first
    token, then evenly over the rest.
    """
    if output_tokens <= chunks:
        return range(1, output_tokens + 1)
    rest = output_tokens - 1
    return tuple(1 + rest * piece // (chunks - 1) for piece in range(chunks))
