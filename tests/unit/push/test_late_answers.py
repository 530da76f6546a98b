"""Ten thousand pushes with answers up to 900 ms late, in virtual time: the delivery never stops."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise

import pytest

from isocost.push.snapshot import Response, Snapshot
from isocost.push.stream import Stream
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ESTIMATES, ROSTER, ROUTES, TABLE
from isocost.push.variant import DELTA, WHOLE, Variant
from tests.unit.push.wire import Client, content

PUSHES, PUSH_S, LATEST_S = 10_000, 0.2, 0.9
#: Of the types that change seldom, one push in so many has news.
SELDOM = 40
ONE = frozenset({"fleet"})
TYPES = (CLUSTER, ENDPOINTS, ROUTES, ROSTER, ESTIMATES, TABLE)
#: Contents are made once; more of them than can be out at once.
CONTENTS = 64


@dataclass
class Simulation:
    """A network that keeps each direction's order and delays every message at random."""

    variant: Variant
    refuses: Callable[[str], bool]
    chance: random.Random = field(default_factory=lambda: random.Random(5))

    def __post_init__(self) -> None:
        self.stream = Stream("life.1", "peer", 0.0, self.variant)
        self.client = Client(self.variant, self.stream)
        self.snapshot = Snapshot()
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()
        self._arrival_s = {"up": 0.0, "down": 0.0}
        self.out: dict[str, int] = dict.fromkeys(TYPES, 0)
        self.received: dict[str, list[Response]] = {type_url: [] for type_url in TYPES}

    def run(self) -> None:
        for type_url in TYPES:
            self.client.ask(type_url, () if type_url == CLUSTER else ONE)
            self._deliver_up()
        for number in range(PUSHES):
            self._at(number * PUSH_S, lambda number=number: self._push(number))
        while self._events:
            self.now_s, _, what = heapq.heappop(self._events)
            what()

    def _push(self, number: int) -> None:
        changed = TYPES if number % SELDOM == 0 else (TABLE,)
        self.snapshot = self.snapshot.replaced(
            {type_url: content(type_url, ONE, number % CONTENTS) for type_url in changed}
        )
        self._write()

    def _write(self) -> None:
        while (send := self.client.server_writes(self.snapshot)) is not None:
            type_url = send.response.resources.type_url
            self.out[type_url] += 1
            assert self.out[type_url] == 1, "two responses of a type are out"
            self._at(self._arrives("down"), self._receive)

    def _receive(self) -> None:
        response = self.client.down[0].response
        type_url = response.resources.type_url
        self.received[type_url].append(response)
        self.client.answer(self.refuses(type_url))
        self._deliver_up()

    def _deliver_up(self) -> None:
        self._at(self._arrives("up"), self._read)

    def _read(self) -> None:
        request = self.client.up[0]
        if request.nonce:
            self.out[request.type_url] -= 1
        self.client.server_reads()
        self._write()

    def _arrives(self, way: str) -> float:
        delay_s = self.chance.uniform(0.0, LATEST_S if way == "up" else 0.05)
        self._arrival_s[way] = max(self._arrival_s[way], self.now_s + delay_s)
        return self._arrival_s[way]

    def _at(self, at_s: float, what: Callable[[], object]) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), what))


both = pytest.mark.parametrize("variant", [WHOLE, DELTA], ids=["whole", "delta"])


@both
def test_late_answers_never_stop_the_delivery(variant: Variant) -> None:
    simulation = Simulation(variant, refuses=lambda _: False)
    simulation.run()
    simulation.client.require_current(simulation.snapshot)
    for type_url, responses in simulation.received.items():
        assert responses[-1].resources is simulation.snapshot.get(type_url)
    # An answer takes less than a second, so of five tables at least one gets through.
    assert PUSHES / 6 < len(simulation.received[TABLE]) <= PUSHES
    assert not any(simulation.out.values())


@both
def test_client_that_refuses_everything_gets_each_content_once_at_most(variant: Variant) -> None:
    simulation = Simulation(variant, refuses=lambda _: True)
    simulation.run()
    for responses in simulation.received.values():
        sent = [response.resources for response in responses]
        assert all(one is not other for one, other in pairwise(sent))
    # Endpoints are parked, whatever becomes of the clusters.
    assert len(simulation.received[ENDPOINTS]) <= PUSHES / SELDOM
    assert len(simulation.received[CLUSTER]) <= PUSHES / SELDOM


@both
def test_client_that_refuses_one_type_gets_all_others(variant: Variant) -> None:
    simulation = Simulation(variant, refuses=lambda type_url: type_url == ESTIMATES)
    simulation.run()
    for type_url in set(TYPES) - {ESTIMATES}:
        assert simulation.received[type_url][-1].resources is simulation.snapshot.get(type_url)
