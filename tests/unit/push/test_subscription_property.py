"""Whatever crosses on the wire: one response out at most, and the newest content arrives."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from isocost.push.answers import Outcome
from isocost.push.snapshot import Response, Snapshot
from isocost.push.stream import Stream
from isocost.push.type_urls import CLUSTER, ORDER, ROSTER, TABLE
from isocost.push.variant import DELTA, WHOLE, Variant
from tests.unit.push.wire import Client, content

TYPES = st.sampled_from(ORDER)
EXISTING = st.frozensets(st.sampled_from(["a", "b"]), min_size=1)
NAMES = st.sets(st.sampled_from(["a", "b", "unknown"]))
#: Few contents, so that an older one is often published again.
CONTENTS = st.integers(0, 2)


def told(response: Response) -> tuple[object, ...]:
    bodies = response.resources.resources
    return {name: bodies[name] for name in response.names}, response.removed


class AnyInterleaving(RuleBasedStateMachine):
    variant: Variant

    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream("life.1", "peer", 0.0, self.variant)
        self.client = Client(self.variant, self.stream)
        self.snapshot = Snapshot()
        self.unanswered: dict[str, str] = {}
        self.last: dict[str, Response] = {}
        self.parked: dict[str, tuple[object, ...]] = {}

    @rule(type_url=TYPES, names=EXISTING, number=CONTENTS)
    def publish(self, type_url: str, names: frozenset[str], number: int) -> None:
        self.snapshot = self.snapshot.replaced({type_url: content(type_url, names, number)})

    @rule(type_url=TYPES, names=NAMES, everything=st.booleans())
    def client_asks(self, type_url: str, names: set[str], everything: bool) -> None:
        if type_url == CLUSTER and everything:
            names = {"*", *names}
        self.client.ask(type_url, names)

    @precondition(lambda self: self.client.down)
    @rule(refuses=st.booleans())
    def client_answers(self, refuses: bool) -> None:
        self.client.answer(refuses)

    @precondition(lambda self: self.client.up)
    @rule()
    def server_reads(self) -> None:
        request = self.client.up[0]
        type_url, outcome = self.client.server_reads()
        answered = request.nonce and self.unanswered.get(type_url) == request.nonce
        assert (outcome in (Outcome.ACKED, Outcome.NACKED)) == bool(answered)
        if answered:
            del self.unanswered[type_url]
        if outcome is Outcome.NACKED:
            self.parked[type_url] = told(self.last[type_url])
        elif outcome is not Outcome.STALE:
            self.parked.pop(type_url, None)

    @rule()
    def server_writes(self) -> None:
        send = self.client.server_writes(self.snapshot)
        if send is None:
            return
        response = send.response
        type_url = response.resources.type_url
        assert type_url not in self.unanswered, "two responses out at once"
        current = self.snapshot.get(type_url)
        assert current is not None
        for name in response.names:
            if name in current.resources:
                assert response.resources.resources[name] == current.resources[name], "not newest"
        assert told(response) != self.parked.pop(type_url, None), "refused, and sent again"
        roster = self.snapshot.get(ROSTER)
        types = self.stream.status(0.0).types
        if type_url == TABLE and roster is not None and ROSTER in types:
            held = types[ROSTER]
            is_current = roster.version in (held.sent_version, held.refused_version)
            assert is_current or not self._lacks_roster(), "a table overtook its roster"
        self.unanswered[type_url] = send.nonce
        self.last[type_url] = response

    def _lacks_roster(self) -> bool:
        """Is there a part of the roster that the stream is subscribed to and was not told?"""
        roster = self.snapshot.get(ROSTER)
        last = self.last.get(ROSTER)
        names = set(self.stream.status(0.0).types[ROSTER].names)
        if roster is None or not names & roster.resources.keys():
            return False
        if last is None:
            return True
        if self.variant.delta:
            return False
        told_of = {name: last.resources.resources[name] for name in last.names if name in names}
        return told_of != {name: body for name, body in roster.resources.items() if name in names}

    @invariant()
    def at_most_one_response_of_a_type_is_on_its_way(self) -> None:
        types = [send.response.resources.type_url for send in self.client.down]
        assert len(types) == len(set(types))

    def teardown(self) -> None:
        self.client.settle(self.snapshot)
        self.client.require_current(self.snapshot)


@pytest.mark.parametrize("variant", [WHOLE, DELTA], ids=["whole", "delta"])
def test_any_interleaving(variant: Variant) -> None:
    machine = type("Machine", (AnyInterleaving,), {"variant": variant})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=300, stateful_step_count=50, deadline=None, derandomize=True
        ),
    )
