"""A model of vLLM V1's continuous batching: queues, chunked prefill, paged KV, preemption.

Pure: time comes in as an argument. A step advances every decoding sequence by one token, so its
cost here does not depend on the batch, and steps that differ only in the length of the contexts
are taken together.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence as Marks

from isocost.fake.scheduler import Scheduler
from isocost.fake.sequence import Progress, Prompt, Sequence
from isocost.fake.speeds import Speed
from isocost.fake.steps import StepRun

#: Tokens of one step, vLLM's default max_num_batched_tokens for a server on these cards.
STEP_TOKENS = 8192


class Engine:
    """At most ``max_num_seqs`` run at once, and what the KV pool holds.

    Every method that takes the time, and ``abort``, wants the engine advanced to the present.
    """

    def __init__(
        self, speed: Speed, kv_blocks: int, max_num_seqs: int, step_tokens: int = STEP_TOKENS
    ) -> None:
        self._speed = speed
        self._scheduler = Scheduler(kv_blocks, max_num_seqs, step_tokens)
        self._factor = 1.0
        #: Engines that take turns on the cards, this one included.
        self._sharers = 1
        self._held_s: float | None = None
        self._resumed_s = 0.0
        self._numbers = 0
        #: Those in the frontend: when they are through, number, sequence.
        self._incoming: list[tuple[float, int, Sequence]] = []
        #: The step that brings a running sequence to its next mark, its place in the order of
        #: admission, and its number.
        self._marks: list[tuple[int, int, int]] = []
        self._run: StepRun | None = None
        self._busy_s = 0.0
        #: Tokens of prompts whose prefill ended, and tokens of answers.
        self.prompt_tokens_total = 0
        self.generation_tokens_total = 0

    @property
    def running(self) -> int:
        return len(self._scheduler.running)

    @property
    def waiting(self) -> int:
        """In the queue when the step in progress began, and those preempted."""
        return self._scheduler.waiting

    @property
    def kv_blocks(self) -> int:
        return self._scheduler.cache.blocks

    @property
    def kv_used_blocks(self) -> int:
        """Blocks of running sequences; what the cache keeps of ended ones counts as free."""
        return self._scheduler.cache.used_blocks

    @property
    def kv_usage(self) -> float:
        return self.kv_used_blocks / self.kv_blocks

    @property
    def computed_tokens_total(self) -> int:
        """Tokens that went through the model: not those from the cache, those preempted twice."""
        return self._scheduler.computed_tokens

    @property
    def prefix_queries_total(self) -> int:
        """Prompt tokens looked up in the prefix cache."""
        return self._scheduler.prefix_queries

    @property
    def prefix_hits_total(self) -> int:
        """Prompt tokens found there."""
        return self._scheduler.prefix_hits

    def cached_tokens(self, prompt: Prompt) -> int:
        """How many leading tokens of the prompt are in the prefix cache."""
        pieces = prompt.pieces()
        return self._scheduler.cache.found(pieces, len(pieces)) * prompt.hash_tokens

    @property
    def preemptions_total(self) -> int:
        return self._scheduler.preemptions

    @property
    def working(self) -> bool:
        """Is a step in progress?"""
        return self._run is not None

    def busy_s(self, now_s: float) -> float:
        """Seconds of the cards' time spent in steps so far."""
        if self._run is None:
            return self._busy_s
        now_s = now_s if self._held_s is None else self._held_s
        return self._busy_s + max(now_s - self._run.start_s, 0.0) / self._sharers

    def mean_residence_s(self, now_s: float) -> float | None:
        """How long the running sequences have held KV, on average; None without any."""
        admission_s = self._scheduler.mean_admission_s()
        return None if admission_s is None else now_s - admission_s

    def submit(
        self, now_s: float, prompt: Prompt, marks: Marks[int], delay_s: float = 0.0
    ) -> Sequence:
        """Enter a request, ``delay_s`` later than the frontend alone would let it through.

        ValueError: it can never fit the KV pool.
        """
        sequence = Sequence(self._numbers, prompt, marks, now_s, prompt.pieces(), prompt.tokens)
        if sequence.most_blocks > self.kv_blocks:
            raise ValueError(
                f"{sequence.most_blocks} blocks exceed the KV pool of {self.kv_blocks}"
            )
        self._numbers += 1
        sequence.ready_s = now_s + self._speed.frontend_s * self._factor + delay_s
        heapq.heappush(self._incoming, (sequence.ready_s, sequence.number, sequence))
        return sequence

    def abort(self, sequence: Sequence) -> None:
        """Forget a request, wherever it is; its KV is free at once."""
        if not sequence.ended:
            sequence.ended = True
            self._scheduler.forget(sequence)

    def slow(self, now_s: float, factor: float) -> None:
        """From now on everything takes ``factor`` times as long as the speed says."""
        self._stretch(now_s, factor / self._factor)
        self._factor = factor

    def share(self, now_s: float, sharers: int) -> None:
        """From now on so many engines take turns on the cards, in slices much shorter than a step:
        each step takes as many times as long. What the frontend does is on the CPU.
        """
        if sharers != self._sharers:
            self._stretch(now_s, sharers / self._sharers)
            self._sharers = sharers

    def hold(self, now_s: float, holding: bool) -> None:
        """Stand still, or go on in the middle of the step. Requests are taken all the same."""
        if holding == (self._held_s is not None):
            return
        if self._held_s is None:
            self._held_s = now_s
            return
        if self._run is not None:
            self._run.start_s += now_s - self._held_s
        self._resumed_s = now_s
        self._held_s = None

    def advance(self, now_s: float) -> list[Progress]:
        """Run until ``now_s``; everything that happened, in order, with its exact time."""
        happened: list[Progress] = []
        while self._held_s is None:
            if self._run is None:
                begin_s = self._next_begin_s()
                if begin_s is None or begin_s > now_s:
                    break
                self._begin(begin_s)
                continue
            done = self._run.done_by(now_s)
            if not done:
                break
            self._complete(self._run, min(done, self._equal_steps(self._run)), happened)
        return happened

    def next_wake_s(self) -> float | None:
        """When ``advance`` will next have something to do; None = not before a submit."""
        if self._held_s is not None:
            return None
        if self._run is None:
            return self._next_begin_s()
        return self._run.end_s(self._equal_steps(self._run))

    def _stretch(self, now_s: float, ratio: float) -> None:
        if self._run is not None:
            self._run.stretch(now_s if self._held_s is None else self._held_s, ratio)

    def _next_begin_s(self) -> float | None:
        """When an idle engine begins a step."""
        ready_s = self._next_incoming_s()
        return None if ready_s is None else max(ready_s, self._resumed_s)

    def _next_incoming_s(self) -> float | None:
        while self._incoming and self._incoming[0][2].ended:
            heapq.heappop(self._incoming)
        return self._incoming[0][0] if self._incoming else None

    def _equal_steps(self, run: StepRun) -> int:
        """How many steps from the one in progress on have the same members and reach no mark."""
        scheduler = self._scheduler
        due = self._next_due()
        if run.prefill or scheduler.changed or due is None:
            return 1
        count = max(due - scheduler.steps + 1, 1)
        # Where nobody can be admitted, arrivals change nothing.
        if scheduler.open:
            ready_s = self._next_incoming_s()
            if ready_s is not None and ready_s < run.end_s(count):
                count = run.step_at(ready_s)
        return scheduler.most_steps(count)

    def _begin(self, at_s: float) -> None:
        while (ready_s := self._next_incoming_s()) is not None and ready_s <= at_s:
            self._scheduler.enqueue(heapq.heappop(self._incoming)[2])
        run = self._scheduler.form(at_s)
        if run is not None:
            self._time(run)
        self._run = run

    def _time(self, run: StepRun) -> None:
        """Give the steps their lengths."""
        speed, factor = self._speed, self._factor * self._sharers
        kv_tokens = self._scheduler.decoding.kv_tokens(self._scheduler.steps)
        run.first_s = factor * (speed.decode_s(run.decoding) + speed.context_s * kv_tokens)
        run.growth_s = factor * speed.context_s * run.decoding
        if run.chunks:
            work_s = sum(speed.prefill_s(new, before) for new, before in run.chunks)
            run.first_s += factor * speed.exposed_s(work_s)

    def _complete(self, run: StepRun, count: int, happened: list[Progress]) -> None:
        """End ``count`` equal steps, report the marks reached, and begin the next."""
        scheduler = self._scheduler
        at_s = run.end_s(count)
        self._busy_s += (at_s - run.start_s) / self._sharers
        if count > 1:
            scheduler.repeat(count - 1)
        self.generation_tokens_total += count * scheduler.decoding.count
        for sequence in run.prefill:
            if not sequence.ended and sequence.computed_tokens == sequence.prefill_tokens:
                self._prefilled(sequence, at_s)
        while (due := self._next_due()) is not None and due <= scheduler.steps:
            number = heapq.heappop(self._marks)[2]
            happened.append(self._reach(scheduler.running[number], at_s))
        self._begin(at_s)

    def _prefilled(self, sequence: Sequence, at_s: float) -> None:
        """A prefill is done, and with it one token is there."""
        self._scheduler.decode(sequence)
        self.generation_tokens_total += 1
        if sequence.first_token_s is None:
            sequence.first_token_s = at_s
            self.prompt_tokens_total += sequence.prompt.tokens
        self._await_mark(sequence)

    def _await_mark(self, sequence: Sequence) -> None:
        due = sequence.due_step
        if due is not None:
            heapq.heappush(self._marks, (due, sequence.admission, sequence.number))

    def _next_due(self) -> int | None:
        """The next step with a mark. A preempted sequence left its entry, now wrong, behind."""
        marks, running = self._marks, self._scheduler.running
        while marks:
            due, _, number = marks[0]
            sequence = running.get(number)
            if sequence is not None and due == sequence.due_step:
                return due
            heapq.heappop(marks)
        return None

    def _reach(self, sequence: Sequence, at_s: float) -> Progress:
        mark = sequence.next_mark
        tokens = sequence.marks[mark]
        before = sequence.marks[mark - 1] if mark else 0
        gap_s = (at_s - sequence.reported_s) / (tokens - before) if mark else None
        sequence.reported_s = at_s
        finished = tokens == sequence.output_tokens
        if finished:
            sequence.ended = True
            self._scheduler.leave(sequence)
        else:
            sequence.next_mark += 1
            self._await_mark(sequence)
        return Progress(sequence, tokens, at_s, finished, tokens - before, gap_s)
