"""The picks of filter/core/src/pick on a table of the control plane's, for two VMs.

Racks, prompts that are held, length classes and alternates are left out: none of them is a policy's
own.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from isocost.config import Policy
from isocost.v1.table_pb2 import Table
from tests.simulation.work import NodeWork, Work, copied

#: cost.rs.
FULL_KV_S, KV_LIMIT, BEYOND_KV_LIMIT_S = 0.5, 0.9, 10.0
ENTROPY_PER_REQUEST, ENTROPY_PER_GB = 0.1, 0.3
#: dispersion.rs: what each of two VMs may send to a node beyond its share.
GROWTH, SLACK = 1.15, 1.0
#: equal_cost.rs and chooser.rs.
FEWEST_DRAWS, MOST_DRAWS = 3, 16
#: weighted_random.rs.
GOLDEN, MOST_OWED = 0x9E3779B97F4A7C15 / 2**64, 8
#: Each of the two VMs has half of the traffic.
FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Query:
    """Tokens of the prompt, and all of the request's with the expected answer; ``kv_gb`` is what
    these take.
    """

    prompt_tokens: float
    tokens: float
    kv_gb: float


class Picker:
    """One VM: its books, its table, and its picks under one policy. ``dispersion`` as in the
    filter.
    """

    def __init__(self, policy: Policy, nodes: int, seed: int, dispersion: bool) -> None:
        self._policy, self._dispersion = policy, dispersion
        self._rng = random.Random(seed)
        self.own = [Work() for _ in range(nodes)]
        #: As they were in its last report that the table has.
        self._seen = copied(self.own)
        self._counts = [0] * nodes
        self._sent = 0
        self._load: NodeWork = []
        #: Columns of the table.
        self._entropy: list[float] = []
        self._capacity: list[float] = []
        self._token_s: list[float] = []
        self._request_s: list[float] = []
        self._extra_s: list[float] = []
        self._kv_capacity_tokens: list[float] = []
        self._shares = [0.0] * nodes
        self._cumulated = [0.0] * nodes
        #: weighted_random's.
        self._last: float | None = None
        self._owed: list[int] = []

    def take(self, table: Table, seen: NodeWork) -> None:
        """A new table, which has the VM's own books as they were ``seen``."""
        part = np.array(table.weight if self._policy == "weighted_random" else table.capacity)
        part[~np.isfinite(np.array(table.entropy))] = 0.0
        self._seen = seen
        self._entropy, self._capacity = list(table.entropy), list(table.capacity)
        self._token_s, self._request_s = list(table.token_s), list(table.request_s)
        self._extra_s = list(table.extra_s)
        self._kv_capacity_tokens = list(table.kv_capacity_tokens)
        self._load = [
            Work(*work)
            for work in zip(table.pending_tokens, table.open, table.kv_tokens, strict=True)
        ]
        part /= part.sum()
        self._shares, self._cumulated = part.tolist(), np.cumsum(part).tolist()
        self._counts, self._sent = [0] * len(part), 0
        self._last, self._owed = None, []

    def pick(self, query: Query) -> int:
        picks = {
            "weighted_random": self._weighted_random,
            "min_entropy": self._min_entropy,
            "equal_cost": self._equal_cost,
        }
        node = picks[self._policy](query)
        if node is None:
            node = max((n for n, share in enumerate(self._shares) if share), key=self._room)
        self._counts[node] += 1
        self._sent += 1
        return node

    def pending_tokens(self, node: int) -> float:
        """What the node is believed to have to read now."""
        return self._projected(node).pending_tokens

    def _weighted_random(self, _: Query) -> int | None:
        for node in self._owed:
            if self._room(node) >= 0.0:
                self._owed.remove(node)
                return node
        for _draw in range(MOST_DRAWS):
            last = self._rng.random() if self._last is None else (self._last + GOLDEN) % 1.0
            self._last = last
            node = min(bisect.bisect_right(self._cumulated, last), len(self.own) - 1)
            if self._shares[node] > 0.0 and self._room(node) >= 0.0:
                return node
            if len(self._owed) < MOST_OWED:
                self._owed.append(node)
        return None

    def _min_entropy(self, query: Query) -> int | None:
        added = ENTROPY_PER_REQUEST + ENTROPY_PER_GB * query.kv_gb

        def entropy(node: int) -> float:
            opened = max(FACTOR * (self.own[node].open - self._seen[node].open), 0.0)
            return self._entropy[node] + opened * added / self._capacity[node]

        return self._least(self._shuffled(len(self.own)), entropy)

    def _equal_cost(self, query: Query) -> int | None:
        wanted = min(max(int(2.0 * len(self.own) / FACTOR), FEWEST_DRAWS), MOST_DRAWS)

        def seconds(node: int) -> float:
            now = self._projected(node)
            waiting_s = (now.pending_tokens + query.prompt_tokens) * self._token_s[node]
            time_s = waiting_s + now.open * self._request_s[node] + self._extra_s[node]
            if self._kv_capacity_tokens[node] <= 0.0:
                return time_s
            used = (now.kv_tokens + query.tokens) / self._kv_capacity_tokens[node]
            return time_s + FULL_KV_S * used + BEYOND_KV_LIMIT_S * max(used - KV_LIMIT, 0.0)

        if len(self.own) <= wanted:
            drawn: Iterable[int] = self._shuffled(len(self.own))
        else:
            drawn = {
                self._rng.choices(range(len(self.own)), self._shares)[0] for _ in range(2 * wanted)
            }
        return self._least(drawn, seconds)

    def _least(self, nodes: Iterable[int], cost: Callable[[int], float]) -> int | None:
        having = [node for node in nodes if self._shares[node] > 0.0 and self._room(node) >= 0.0]
        return min(having, key=cost, default=None)

    def _shuffled(self, count: int) -> list[int]:
        """From anywhere on, as the filter begins."""
        start = self._rng.randrange(count)
        return [*range(start, count), *range(start)]

    def _projected(self, node: int) -> Work:
        return self.own[node].projected(self._load[node], self._seen[node], FACTOR)

    def _room(self, node: int) -> float:
        if not self._dispersion:
            return 0.0
        share = (self._sent + 1) * self._shares[node]
        return max(GROWTH * share, share + SLACK) - self._counts[node] - 1
