"""Whatever crosses on the wire: one response out at most, and the newest content arrives."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isocost.push.request import Request
from isocost.push.snapshot import Snapshot, TypeResources
from isocost.push.stream import Send, Stream
from isocost.push.subscription import Outcome
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ORDER, ROSTER, TABLE

TYPES = st.sampled_from(ORDER)
NAMES = st.sets(st.sampled_from(["a", "b", "unknown"]))
KNOWN = {"a", "b"}
#: Few contents, so that an older one is often published again.
CONTENTS = st.integers(0, 2)


@dataclass
class Holding:
    """What the client has of one type."""

    names: frozenset[str]
    nonce: str = ""
    version: str | None = None
    resources: frozenset[str] = frozenset()
    refused: str | None = None


@dataclass
class Wire:
    """Both directions of the stream, in order, each as slow as the machine likes."""

    down: deque[Send] = field(default_factory=deque)
    up: deque[Request] = field(default_factory=deque)


class AnyInterleaving(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream("life.1", "peer", 0.0)
        self.snapshot = Snapshot()
        self.wire = Wire()
        self.client: dict[str, Holding] = {}
        self.unanswered: dict[str, str] = {}
        self.parked: dict[str, str] = {}
        self.endpoints_follow = True

    @rule(type_url=TYPES, content=CONTENTS)
    def publish(self, type_url: str, content: int) -> None:
        bodies = {name: f"{name}{content}".encode() for name in KNOWN}
        new = TypeResources.hashed(type_url, bodies)
        self.snapshot = self.snapshot.replaced({type_url: new})

    @rule(type_url=TYPES, names=NAMES)
    def client_asks(self, type_url: str, names: set[str]) -> None:
        if type_url == CLUSTER:
            names = set()
        holding = self.client.setdefault(type_url, Holding(frozenset()))
        holding.names = frozenset(names)
        self.wire.up.append(Request(type_url, tuple(sorted(names)), holding.nonce))

    @precondition(lambda self: self.wire.down)
    @rule(refuses=st.booleans())
    def client_answers(self, refuses: bool) -> None:
        send = self.wire.down.popleft()
        type_url = send.resources.type_url
        holding = self.client[type_url]
        holding.nonce = send.nonce
        if refuses:
            holding.refused = send.resources.version
        else:
            holding.version, holding.refused = send.resources.version, None
            holding.resources = frozenset(send.names)
        if type_url == CLUSTER:
            self.endpoints_follow = False
        if type_url == ENDPOINTS:
            self.endpoints_follow = True
        error = "no" if refuses else None
        self.wire.up.append(Request(type_url, tuple(sorted(holding.names)), send.nonce, error))

    @precondition(lambda self: self.wire.up)
    @rule()
    def server_reads(self) -> None:
        request = self.wire.up.popleft()
        outcome = self.stream.on_request(request)
        answered = request.nonce and self.unanswered.get(request.type_url) == request.nonce
        assert (outcome in (Outcome.ACKED, Outcome.NACKED)) == bool(answered)
        if answered:
            del self.unanswered[request.type_url]
        subscription = self.stream.status(0.0).types[request.type_url]
        if outcome is Outcome.NACKED:
            assert subscription.refused_version is not None
            self.parked[request.type_url] = subscription.refused_version
        elif outcome is not Outcome.STALE:
            self.parked.pop(request.type_url, None)

    @rule()
    def server_writes(self) -> None:
        send = self.stream.next_send(self.snapshot)
        if send is None:
            return
        type_url = send.resources.type_url
        assert type_url not in self.unanswered, "two responses out at once"
        assert send.resources is self.snapshot.get(type_url), "not the newest"
        assert set(send.names) <= set(send.resources.resources)
        roster = self.snapshot.get(ROSTER)
        status = self.stream.status(0.0).types
        if type_url == TABLE and roster is not None and ROSTER in status:
            held = status[ROSTER]
            current = roster.version in (held.sent_version, held.refused_version)
            assert current or not set(held.names) & KNOWN, "a table overtook its roster"
        self.unanswered[type_url] = send.nonce
        self.wire.down.append(send)

    @invariant()
    def at_most_one_response_of_a_type_is_on_its_way(self) -> None:
        types = [send.resources.type_url for send in self.wire.down]
        assert len(types) == len(set(types))

    def teardown(self) -> None:
        """From here on the client accepts all it gets: then it ends with what is current."""
        for _ in range(500):
            self.server_writes()
            if not self.wire.down and not self.wire.up:
                break
            if self.wire.down:
                self.client_answers(refuses=False)
            if self.wire.up:
                self.server_reads()
        else:
            raise AssertionError("the stream never comes to rest")
        for type_url, holding in self.client.items():
            current = self.snapshot.get(type_url)
            known = KNOWN if type_url == CLUSTER else holding.names & KNOWN
            if current is None or not known or holding.refused == current.version:
                continue
            assert holding.version == current.version
            assert holding.resources >= known
            if type_url == ENDPOINTS:
                assert self.endpoints_follow, "clusters came without endpoints after them"


AnyInterleaving.TestCase.settings = settings(
    max_examples=400, stateful_step_count=50, deadline=None, derandomize=True
)
TestAnyInterleaving = AnyInterleaving.TestCase
