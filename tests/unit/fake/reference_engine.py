"""The engine's rules once more, the long way: every block is an object, every step is taken.

Slow and plain on purpose; the engine must do exactly the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isocost.fake.sequence import Prompt
from isocost.fake.speeds import Speed

BLOCK = 16


@dataclass(eq=False)
class Block:
    """``name`` of a hashed block; ``users`` sequences hold it."""

    name: int | None = None
    users: int = 0


@dataclass(eq=False)
class Request:
    number: int
    prompt: Prompt
    output: int
    ready_s: float
    generated: int = 0
    computed: int = 0
    blocks: list[Block] = field(default_factory=list)
    looked_up: bool = False
    decodes: bool = False
    ended: bool = False

    @property
    def known(self) -> int:
        """Tokens that it has: its prompt and its answer so far."""
        return self.prompt.tokens + self.generated


class ReferenceEngine:
    """Takes ready times, not frontends and delays; pieces have one block each."""

    def __init__(self, speed: Speed, blocks: int, max_num_seqs: int, step_tokens: int) -> None:
        self.speed = speed
        self.free = [Block() for _ in range(blocks)]
        self.pool = blocks
        self.max_num_seqs = max_num_seqs
        self.step_tokens = step_tokens
        self.incoming: list[Request] = []
        self.queue: list[Request] = []
        self.running: list[Request] = []
        self.step: list[tuple[Request, int]] = []
        self.end_s: float | None = None
        self.tokens: list[tuple[int, int, float]] = []
        self.preemptions = 0
        self.hits = 0

    @property
    def used(self) -> int:
        return self.pool - len(self.free)

    def submit(self, number: int, ready_s: float, prompt: Prompt, output: int) -> Request:
        request = Request(number, prompt, output, ready_s)
        self.incoming.append(request)
        self.incoming.sort(key=lambda each: (each.ready_s, each.number))
        return request

    def abort(self, request: Request) -> None:
        request.ended = True
        for members in (self.incoming, self.queue, self.running):
            if request in members:
                members.remove(request)
        self._release(request)

    def advance(self, now_s: float) -> None:
        while True:
            if self.end_s is None:
                if not self.incoming or self.incoming[0].ready_s > now_s:
                    return
                self._begin(self.incoming[0].ready_s)
            elif self.end_s <= now_s:
                self._end(self.end_s)
            else:
                return

    def _begin(self, at_s: float) -> None:
        while self.incoming and self.incoming[0].ready_s <= at_s:
            self.queue.append(self.incoming.pop(0))
        budget, preempted = self.step_tokens, False
        self.step = []
        for request in list(self.running):
            if request not in self.running:
                continue
            tokens = min(request.known - request.computed, budget)
            while not self._grow(request, request.computed + tokens):
                victim = self.running.pop()
                self._release(victim)
                victim.computed = 0
                victim.decodes = False
                self.queue.insert(0, victim)
                self.preemptions += 1
                preempted = True
                if victim is request:
                    break
            else:
                self.step.append((request, tokens))
                budget -= tokens
        while self.queue and budget and not preempted and len(self.running) < self.max_num_seqs:
            head = self.queue[0]
            cached = self._cached(head)
            tokens = min(head.known - len(cached) * BLOCK, budget)
            idle = sum(block.users == 0 for block in cached)
            new = -(-(len(cached) * BLOCK + tokens) // BLOCK) - len(cached)
            if new > len(self.free) - idle:
                break
            self.queue.pop(0)
            self.running.append(head)
            for block in cached:
                if block.users == 0:
                    self.free.remove(block)
                block.users += 1
            head.blocks = cached
            head.computed = len(cached) * BLOCK
            if not head.looked_up:
                head.looked_up = True
                self.hits += head.computed
            assert self._grow(head, head.computed + tokens)
            self.step.append((head, tokens))
            budget -= tokens
        self.end_s = at_s + self._length_s() if self.step else None
        for request, tokens in self.step:
            request.computed += tokens

    def _length_s(self) -> float:
        decoding = [request for request, _ in self.step if request.decodes]
        contexts = sum(request.computed + 1 for request in decoding)
        chunks = [(tokens, each.computed) for each, tokens in self.step if not each.decodes]
        work_s = sum(self.speed.prefill_s(*chunk) for chunk in chunks)
        exposed_s = self.speed.exposed_s(work_s) if chunks else 0.0
        return self.speed.decode_s(len(decoding)) + self.speed.context_s * contexts + exposed_s

    def _end(self, at_s: float) -> None:
        step, self.step, self.end_s = self.step, [], None
        for request, _ in step:
            if request.ended or request.computed < request.known:
                continue
            request.generated += 1
            request.decodes = True
            self.tokens.append((request.number, request.generated, at_s))
            if request.generated == request.output:
                request.ended = True
                self.running.remove(request)
                self._release(request)
        self._begin(at_s)

    def _named(self) -> dict[int, Block]:
        """Every block that has a name: idle ones, and those of live sequences."""
        blocks = [*self.free, *(block for each in self.running for block in each.blocks)]
        return {block.name: block for block in blocks if block.name is not None}

    def _cached(self, request: Request) -> list[Block]:
        named, cached = self._named(), []
        for name in request.prompt.hashes[: (request.known - 1) // BLOCK]:
            if name not in named:
                break
            cached.append(named[name])
        return cached

    def _grow(self, request: Request, tokens: int) -> bool:
        """Blocks for so many tokens, those that get full named; False and unchanged if there are
        too few.
        """
        before = request.computed
        missing = -(-tokens // BLOCK) - len(request.blocks)
        if missing > len(self.free):
            return False
        for _ in range(missing):
            block = self.free.pop(0)
            block.name, block.users = None, 1
            request.blocks.append(block)
        named = self._named()
        full = list(zip(request.prompt.hashes[: tokens // BLOCK], request.blocks, strict=False))
        for name, block in full[before // BLOCK :]:
            # A copy of what the cache has stays without a name, and is not found.
            if name not in named:
                block.name = name
        return True

    def _release(self, request: Request) -> None:
        """The nameless blocks first, then the named ones from the last to the first."""
        named = [block for block in request.blocks if block.name is not None]
        nameless = [block for block in request.blocks if block.name is None]
        for block in [*nameless, *reversed(named)]:
            block.users -= 1
            if block.users == 0:
                self.free.append(block)
        request.blocks = []
