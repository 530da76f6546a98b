"""The policy equal_cost with the age of what it knows.

Every VM reports what it has open each 200 ms, the control plane adds the reports up each 200 ms,
and every VM takes the table a little later. The filter's rules are in filter/core/src/pick.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from isocost.fake.engine import Engine
from tests.simulation.fleet import Request
from tests.simulation.learning import Learner, Node, Seen
from tests.simulation.timers import Timers
from tests.simulation.work import NodeWork, Work, copied, total

PERIOD_S = 0.2
#: From the sum to its use: the way, and at most one look of the VM for a new table.
WAY_S, LOOK_S = 0.01, 0.1
#: Standard deviation of the token estimate, as a part of the truth.
PROMPT_ERROR = 0.1
FEWEST_DRAWS, MOST_DRAWS = 3, 16
#: Tokens at which the filter marks a prompt's beginning: 1, 4 and 16 KiB apart, whole blocks only.
MARKS = (*range(512, 4096, 512), *range(4096, 16384, 1024), *range(16384, 65537, 4096))
MOST_HELD = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """The constants of the predicted time, in seconds.

    ``request_s``: for each open request. ``kv_s``: at a full KV cache. ``kv_over_s``: for a whole
    one beyond 90 %.
    """

    request_s: float = 0.002
    kv_s: float = 0.5
    kv_over_s: float = 10.0

    def predicted_s(self, node: Node, work: Work, prompt: float, held: float, kv: float) -> float:
        """A prompt's, of which the node holds a part, and which takes ``kv`` tokens in the end."""
        used = (work.kv_tokens + kv) / node.kv_capacity_tokens
        return (
            (work.pending_tokens + max(prompt - held, 0.0)) * node.token_s
            + work.open * self.request_s
            + self.kv_s * used
            + self.kv_over_s * max(used - 0.9, 0.0)
        )


@dataclass(frozen=True, slots=True)
class Table:
    """The control plane's: what is open, where prompts are held, how fast the nodes are."""

    work: NodeWork
    placed: dict[int, int]
    nodes: Sequence[Node]


class Vm:
    """The filter in one worker."""

    def __init__(self, nodes: Sequence[Node], learner: Learner | None) -> None:
        self.own = [Work() for _ in nodes]
        self.table, self.seen, self.reported = (copied(self.own) for _ in range(3))
        self.counts = [0] * len(nodes)
        self.holders: dict[int, int] = {}
        self.times = Seen(len(nodes))
        self._learner = learner
        self._know(nodes)

    def report(self, _now_s: float) -> None:
        self.reported = copied(self.own)
        if self._learner is not None:
            self._learner.add(self.times)

    def take(self, table: Table, seen: NodeWork, _now_s: float) -> None:
        self.table, self.seen = table.work, seen
        self.counts = [0] * len(self.counts)
        self.holders |= table.placed
        self._know(table.nodes)

    def _know(self, nodes: Sequence[Node]) -> None:
        capacity = sum(node.capacity for node in nodes)
        self.nodes, self.shares = nodes, [node.capacity / capacity for node in nodes]

    def held(self, request: Request) -> dict[int, int]:
        """Tokens of the prompt that nodes are known to hold, the longest first."""
        found: dict[int, int] = {}
        for block, tokens in reversed(marked(request)):
            node = self.holders.get(block)
            if node is not None and len(found) < MOST_HELD:
                found.setdefault(node, tokens)
        return found


@dataclass(frozen=True, slots=True)
class Flight:
    """An open request: who sent it, and what it counts for."""

    vm: Vm
    sent_s: float
    pending_tokens: float
    kv_tokens: float
    #: The node's, this one's own included.
    all_pending_tokens: float


class EqualCost:
    """A fleet's gateways: ``vms`` of them, each with an equal share of the requests.

    The expected answer is always the mean. ``projection`` and ``dispersion`` as in the filter. With
    a ``learner`` the nodes' speeds are what it says, and ``nodes`` only what is known at first.
    With ``caches``, the nodes' engines, it is told what they hold and need not remember it.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        vms: int,
        mean_output_tokens: float,
        seed: int,
        cost: Cost | None = None,
        learner: Learner | None = None,
        *,
        projection: bool = True,
        dispersion: bool = True,
        caches: Sequence[Engine] = (),
    ) -> None:
        self._nodes, self._learner = nodes, learner
        self._output_tokens = mean_output_tokens
        self._cost = cost or Cost()
        self._factor = float(vms) if projection else 0.0
        self._dispersion = dispersion
        self._caches = caches
        self._draws = min(max(2 * len(nodes) // vms, FEWEST_DRAWS), MOST_DRAWS)
        self._rng = random.Random(seed)
        self._vms = [Vm(nodes, learner) for _ in range(vms)]
        self._flights: dict[int, Flight] = {}
        self._placed: dict[int, int] = {}
        self._timers = Timers()
        self._timers.every(PERIOD_S, 0.0, self._sum)
        for vm in self._vms:
            self._timers.every(PERIOD_S, self._rng.random() * PERIOD_S, vm.report)

    def choose(self, now_s: float, request: Request) -> int:
        self._timers.run_until(now_s)
        vm = self._rng.choice(self._vms)
        prompt = request.prompt.tokens * max(1 + self._rng.gauss(0, PROMPT_ERROR), 0.0)
        kv = prompt + self._output_tokens
        held = self._true_held(request) if self._caches else vm.held(request)
        node = self._best(vm, self._drawn(vm, request, held), prompt, kv, held)
        if node is None:
            node = self._best(vm, range(len(self._nodes)), prompt, kv, held)
        if node is None:
            node = min(range(len(self._nodes)), key=lambda n: vm.counts[n] / vm.shares[n])
        pending = max(prompt - held.get(node, 0), 0.0)
        before = vm.own[node].projected(vm.table[node], vm.seen[node], self._factor)
        flight = Flight(vm, now_s, pending, kv, before.pending_tokens + pending)
        self._flights[request.number] = flight
        vm.own[node].opened(flight.pending_tokens, kv)
        vm.counts[node] += 1
        return node

    def first_token(self, now_s: float, request: Request) -> None:
        self._timers.run_until(now_s)
        flight = self._flights[request.number]
        flight.vm.own[request.node].pending_tokens -= flight.pending_tokens
        flight.vm.times.first_token(request.node, flight.all_pending_tokens, now_s - flight.sent_s)
        placed = {block: request.node for block, _ in marked(request)}
        flight.vm.holders |= placed
        self._placed |= placed

    def finished(self, now_s: float, request: Request) -> None:
        self._timers.run_until(now_s)
        flight = self._flights.pop(request.number)
        work = flight.vm.own[request.node]
        if request.output_tokens > 1 and request.first_token_s is not None:
            tpot_s = (now_s - request.first_token_s) / (request.output_tokens - 1)
            flight.vm.times.finished(request.node, tpot_s)
        work.open -= 1
        work.kv_tokens -= flight.kv_tokens

    def _sum(self, now_s: float) -> None:
        work = total([vm.reported for vm in self._vms])
        if self._learner is not None:
            self._nodes = self._learner.nodes(now_s, work)
        table = Table(work, self._placed, self._nodes)
        self._placed = {}
        for vm in self._vms:
            take = partial(vm.take, table, vm.reported)
            self._timers.at(now_s + WAY_S + self._rng.random() * LOOK_S, take)

    def _true_held(self, request: Request) -> dict[int, int]:
        """Tokens of the prompt that are in the nodes' caches now, the longest first."""
        tokens = {
            node: held
            for node, engine in enumerate(self._caches)
            if (held := engine.cached_tokens(request.prompt))
        }
        longest = sorted(tokens, key=lambda node: tokens[node], reverse=True)
        return {node: tokens[node] for node in longest[:MOST_HELD]}

    def _drawn(self, vm: Vm, request: Request, held: dict[int, int]) -> list[int]:
        """Distinct nodes by capacity, those that hold the prompt, or one by its name."""
        keyed = ((self._rng.random() ** (1 / share), n) for n, share in enumerate(vm.shares))
        drawn = [node for _, node in heapq.nlargest(self._draws, keyed)]
        if request.prompt.hashes and not held:
            name = random.Random(request.prompt.hashes[:2][-1])
            drawn[-1] = name.randrange(len(self._nodes))
        return drawn + [node for node in held if node not in drawn]

    def _best(
        self, vm: Vm, candidates: Sequence[int], prompt: float, kv: float, held: dict[int, int]
    ) -> int | None:
        """The lowest predicted time of those under their cap."""
        due = sum(vm.counts) + 1
        least: tuple[float, int] | None = None
        for node in candidates:
            if (
                self._dispersion
                and vm.counts[node]
                and self._full(vm.counts[node] + 1, vm.shares[node], due)
            ):
                continue
            work = vm.own[node].projected(vm.table[node], vm.seen[node], self._factor)
            cost_s = self._cost.predicted_s(vm.nodes[node], work, prompt, held.get(node, 0), kv)
            if least is None or cost_s < least[0]:
                least = cost_s, node
        return None if least is None else least[1]

    def _full(self, count: int, share: float, own_total: int) -> bool:
        due = own_total * share
        return count > max(1.25 * due, due + max(1.0, 2 / len(self._vms)))


def marked(request: Request) -> list[tuple[int, int]]:
    """The names of the prompt's beginnings with their tokens."""
    hashes, size = request.prompt.hashes, request.prompt.hash_tokens
    return [
        (hashes[tokens // size - 1], tokens)
        for tokens in MARKS
        if tokens % size == 0 and tokens // size <= len(hashes)
    ]
