"""Envoy's own policies: round robin, and the least request of two."""

from __future__ import annotations

import random

from tests.simulation.fleet import Request


class RoundRobin:
    """Each worker goes round the nodes by itself."""

    def __init__(self, nodes: int, workers: int, seed: int) -> None:
        self._rng = random.Random(seed)
        self._nodes = nodes
        self._next = [self._rng.randrange(nodes) for _ in range(workers)]

    def choose(self, _now_s: float, _request: Request) -> int:
        worker = self._rng.randrange(len(self._next))
        self._next[worker] = (self._next[worker] + 1) % self._nodes
        return self._next[worker]

    def first_token(self, _now_s: float, _request: Request) -> None:
        pass

    def finished(self, _now_s: float, _request: Request) -> None:
        pass


class LeastRequest:
    """Of two nodes drawn with replacement the one with fewer requests of this Envoy's.

    The workers of an Envoy count together.
    """

    def __init__(self, nodes: int, envoys: int, seed: int) -> None:
        self._rng = random.Random(seed)
        self._active = [[0] * nodes for _ in range(envoys)]
        self._envoy_of: dict[int, int] = {}

    def choose(self, _now_s: float, request: Request) -> int:
        envoy = self._rng.randrange(len(self._active))
        active = self._active[envoy]
        first, second = (self._rng.randrange(len(active)) for _ in range(2))
        node = second if active[second] < active[first] else first
        active[node] += 1
        self._envoy_of[request.number] = envoy
        return node

    def first_token(self, _now_s: float, _request: Request) -> None:
        pass

    def finished(self, _now_s: float, request: Request) -> None:
        self._active[self._envoy_of.pop(request.number)][request.node] -= 1
