"""The engines of a fleet in virtual time, with a gateway that chooses for each request."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from isocost.bench.trace import TraceRequest
from isocost.fake.engine import Engine
from isocost.fake.sequence import Prompt, coarse_marks
from tests.benchmark.capacity import prompt_of


@dataclass(slots=True)
class Request:
    """A request of the trace on its way; times in seconds, None = not yet."""

    number: int
    arrival_s: float
    prompt: Prompt
    output_tokens: int
    first_token_s: float | None = None
    finished_s: float | None = None
    node: int = -1


class Gateway(Protocol):
    """Every Envoy of the fleet with its workers. The calls come in the order of their times."""

    def choose(self, now_s: float, request: Request, /) -> int: ...

    def first_token(self, now_s: float, request: Request, /) -> None: ...

    def finished(self, now_s: float, request: Request, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Slowdown:
    """One node takes ``factor`` times as long from a time on."""

    node: int
    factor: float
    from_s: float


def replay(
    trace: Sequence[TraceRequest],
    engines: Sequence[Engine],
    gateway: Gateway,
    slowdown: Slowdown | None = None,
) -> list[Request]:
    """What became of each request; all of them end."""
    requests = [
        Request(number, item.arrival_s, prompt_of(item), item.output_tokens)
        for number, item in enumerate(trace)
    ]
    on_node: list[dict[int, Request]] = [{} for _ in engines]
    wakes: list[tuple[float, int]] = []
    due: list[float | None] = [None] * len(engines)

    def advance(node: int, now_s: float) -> None:
        for progress in engines[node].advance(now_s):
            request = on_node[node][progress.sequence.number]
            if request.first_token_s is None:
                request.first_token_s = progress.at_s
                gateway.first_token(progress.at_s, request)
            if progress.finished:
                request.finished_s = progress.at_s
                del on_node[node][progress.sequence.number]
                gateway.finished(progress.at_s, request)

    def wait(node: int) -> None:
        due[node] = wake_s = engines[node].next_wake_s()
        if wake_s is not None:
            heapq.heappush(wakes, (wake_s, node))

    def run_until(now_s: float) -> None:
        while wakes and wakes[0][0] <= now_s:
            wake_s, node = heapq.heappop(wakes)
            if wake_s == due[node]:
                advance(node, wake_s)
                wait(node)

    for request in requests:
        now_s = request.arrival_s
        if slowdown is not None and now_s >= slowdown.from_s:
            run_until(slowdown.from_s)
            engines[slowdown.node].slow(slowdown.from_s, slowdown.factor)
            wait(slowdown.node)
            slowdown = None
        run_until(now_s)
        request.node = node = gateway.choose(now_s, request)
        advance(node, now_s)
        marks = coarse_marks(request.output_tokens, 2)
        sequence = engines[node].submit(now_s, request.prompt, marks)
        on_node[node][sequence.number] = request
        wait(node)
    run_until(float("inf"))
    return requests
