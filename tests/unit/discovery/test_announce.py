"""What agents announce: the latest sample, silence, restarts, and two claims of one thing."""

from __future__ import annotations

import functools
import itertools
import math
from random import Random

import pytest

from isocost.discovery.announce import Announcement, Announcements
from isocost.discovery.report import AgentReport
from isocost.model import NodeSample
from tests.unit.fleet_builder import node, sample
from tests.unit.sample_blocks import agent_report

LOST_S, FORGET_S = 3.0, 60.0
SEQUENCE = itertools.count(1)


@pytest.fixture
def known() -> Announcements:
    return Announcements(LOST_S, FORGET_S)


def report(
    *samples: NodeSample,
    agent: str = "a1",
    stream: int = 0,
    sequence: int | None = None,
    wall_unix_s: float = 0.0,
    monotonic_s: float = 0.0,
) -> AgentReport:
    """With the next sequence, unless it is given."""
    sequence = next(SEQUENCE) if sequence is None else sequence
    return agent_report(agent, sequence, wall_unix_s, monotonic_s, samples, stream=stream)


def claim(
    name: str = "n1", epoch: int = 1, address: str = "192.0.2.1:8000", host: str = "h1"
) -> NodeSample:
    return sample(node(name, instance_id=f"{name}@{epoch}", address=address, host=host))


def sample_in(claim: Announcement) -> NodeSample:
    return claim.report.block.sample(claim.entry)


def keep_speaking(known: Announcements, until_s: float) -> None:
    """Another agent, without nodes, that is not silent until then."""
    known.receive(report(agent="other"), until_s)


def test_the_latest_sample_counts(known: Announcements) -> None:
    one = node("n1")
    known.receive(report(sample(one, waiting=1.0), sequence=1), 10.0)
    known.receive(report(sample(one, waiting=2.0), sequence=2), 10.2)
    got = known.announced(10.3).nodes["n1"]
    assert sample_in(got).engine.waiting.value == 2.0
    assert (got.report.agent, got.report.sequence, got.arrived_s) == ("a1", 2, 10.2)


def test_silence_makes_a_node_lost_and_then_forgotten(known: Announcements) -> None:
    known.receive(report(claim()), 10.0)
    keep_speaking(known, until_s=200.0)
    for now_s, lost in ((10.0 + LOST_S, False), (10.1 + LOST_S, True), (10.0 + FORGET_S, True)):
        got = known.announced(now_s).nodes["n1"]
        assert known.lost(got, now_s) is lost
    assert known.announced(10.1 + FORGET_S).nodes == {}
    known.receive(report(claim()), 100.0)
    assert not known.lost(known.announced(100.0).nodes["n1"], 100.0)


def test_a_node_that_its_agent_no_longer_names_is_lost_alone(known: Announcements) -> None:
    known.receive(report(claim("n1"), claim("n2", address="192.0.2.2:1")), 10.0)
    known.receive(report(claim("n1")), 14.0)
    nodes = known.announced(14.0).nodes
    assert not known.lost(nodes["n1"], 14.0)
    assert known.lost(nodes["n2"], 14.0)


def machine(agent: str, nodes: int) -> AgentReport:
    number = int(agent[1:])
    return report(
        *(claim(f"{agent}-{n}", address=f"192.0.{number}.{n}:1") for n in range(nodes)),
        agent=agent,
    )


def agents_of(known: Announcements, now_s: float) -> set[str]:
    return {name.split("-")[0] for name in known.announced(now_s).nodes}


def test_agents_that_fall_silent_together_are_kept_and_fewer_are_forgotten(
    known: Announcements,
) -> None:
    for agent in ("a1", "a2", "a3", "a4"):
        known.receive(machine(agent, 2), 10.0)
    late_s = 10.1 + FORGET_S
    assert agents_of(known, late_s) == {"a1", "a2", "a3", "a4"}
    known.receive(machine("a1", 2), late_s)
    assert agents_of(known, late_s) == {"a1", "a2", "a3", "a4"}
    known.receive(machine("a2", 2), late_s)
    assert agents_of(known, late_s) == {"a1", "a2"}
    later_s = late_s + FORGET_S + 0.1
    known.receive(machine("a1", 2), later_s)
    assert agents_of(known, later_s) == {"a1"}, "the forgotten agents still counted"


def test_one_agent_with_most_of_the_nodes_is_forgotten_like_any_other(
    known: Announcements,
) -> None:
    late_s = 10.1 + FORGET_S
    for agent, nodes in (("a1", 10), ("a2", 4), ("a3", 2)):
        known.receive(machine(agent, nodes), 10.0)
    for agent, nodes in (("a2", 4), ("a3", 2)):
        known.receive(machine(agent, nodes), late_s)
    assert agents_of(known, late_s) == {"a2", "a3"}


def test_the_only_agent_is_kept_however_long_it_is_silent(known: Announcements) -> None:
    known.receive(machine("a1", 2), 10.0)
    for late_s in (10.1 + FORGET_S, 10.0 + 100 * FORGET_S):
        got = known.announced(late_s)
        assert set(got.nodes) == {"a1-0", "a1-1"}
        assert got.forgotten == ()


def test_the_last_agent_is_kept_after_the_others_were_forgotten(known: Announcements) -> None:
    for agent in ("a1", "a2"):
        known.receive(machine(agent, 1), 10.0)
    gone_s = 10.1 + FORGET_S
    known.receive(machine("a2", 1), gone_s)
    assert agents_of(known, gone_s) == {"a2"}
    assert agents_of(known, gone_s + 2 * FORGET_S) == {"a2"}


def test_another_agent_ends_the_hold_of_one_that_went_for_good(known: Announcements) -> None:
    known.receive(machine("a1", 2), 10.0)
    late_s = 10.1 + FORGET_S
    assert agents_of(known, late_s) == {"a1"}
    known.receive(machine("a2", 2), late_s)
    assert agents_of(known, late_s) == {"a2"}


def test_what_is_forgotten_is_told_once_with_the_reason(known: Announcements) -> None:
    for agent in ("a1", "a2", "a3"):
        known.receive(machine(agent, 2), 10.0)
    late_s = 10.1 + FORGET_S
    known.receive(report(agent="a2"), late_s)
    known.receive(machine("a3", 30), late_s)
    told = [str(forgotten) for forgotten in known.announced(late_s).forgotten]
    assert told == [
        "out of the roster, since agent a1 is silent: a1-0, a1-1",
        "out of the roster, since agent a2 does not name them any more: a2-0, a2-1",
    ]
    assert known.announced(late_s).forgotten == ()
    known.receive(report(agent="a3"), late_s + FORGET_S + 0.1)
    (many,) = known.announced(late_s + FORGET_S + 0.1).forgotten
    assert str(many).endswith("a3-18, a3-19, ...")


def test_a_node_that_another_agent_has_is_not_told_as_forgotten(known: Announcements) -> None:
    known.receive(report(claim(), agent="gone"), 10.0)
    late_s = 10.1 + FORGET_S
    known.receive(report(claim(), agent="living"), late_s)
    got = known.announced(late_s)
    assert set(got.nodes) == {"n1"}
    assert got.forgotten == ()


def test_nodes_that_a_speaking_agent_no_longer_names_are_forgotten(known: Announcements) -> None:
    for agent in ("a1", "a2"):
        known.receive(machine(agent, 4), 10.0)
    late_s = 10.1 + FORGET_S
    for agent in ("a1", "a2"):
        known.receive(report(agent=agent), late_s)
    assert known.announced(late_s).nodes == {}


def test_a_report_that_was_overtaken_or_came_twice_changes_nothing(known: Announcements) -> None:
    known.receive(report(claim(epoch=6), sequence=7, wall_unix_s=50.0, monotonic_s=5.0), 10.0)
    known.receive(report(claim(epoch=5), sequence=6, wall_unix_s=49.8, monotonic_s=4.8), 10.2)
    known.receive(report(claim(epoch=5), sequence=7, wall_unix_s=50.0, monotonic_s=5.0), 10.2)
    got = known.announced(10.2).nodes["n1"]
    assert (got.node.instance_id, got.arrived_s) == ("n1@6", 10.0)


@pytest.mark.parametrize(
    ("wall_unix_s", "monotonic_s"),
    [
        pytest.param(40.0, 5.2, id="the agent restarted and its wall clock was set back"),
        pytest.param(50.2, 0.1, id="its machine restarted"),
    ],
)
def test_a_restarted_agent_is_heard_though_it_counts_from_the_beginning(
    known: Announcements, wall_unix_s: float, monotonic_s: float
) -> None:
    known.receive(report(claim(), sequence=700, wall_unix_s=50.0, monotonic_s=5.0), 10.0)
    again = report(claim(), sequence=1, wall_unix_s=wall_unix_s, monotonic_s=monotonic_s)
    known.receive(again, 10.2)
    assert known.announced(10.2).nodes["n1"].arrived_s == 10.2


def test_after_its_silence_an_agent_is_heard_whatever_it_counts(known: Announcements) -> None:
    known.receive(report(claim(), sequence=700, wall_unix_s=50.0, monotonic_s=5.0), 10.0)
    known.receive(report(claim(), sequence=1), 10.0 + LOST_S)
    assert known.announced(10.0 + LOST_S).nodes["n1"].arrived_s == 10.0
    known.receive(report(claim(), sequence=1), 10.1 + LOST_S)
    assert known.announced(10.1 + LOST_S).nodes["n1"].arrived_s == 10.1 + LOST_S


@pytest.mark.parametrize("epoch", [6, 4])
def test_an_agent_may_replace_its_own_instance_by_any_other(
    known: Announcements, epoch: int
) -> None:
    known.receive(report(claim(epoch=5)), 10.0)
    known.receive(report(claim(epoch=epoch)), 10.2)
    got = known.announced(10.2)
    assert got.nodes["n1"].node.instance_id == f"n1@{epoch}"
    assert not got.conflicts


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_of_two_agents_the_one_with_the_newest_instance_has_the_name(
    known: Announcements, order: tuple[str, str]
) -> None:
    samples = {"old": claim(epoch=5, host="h1"), "new": claim(epoch=6, host="h2")}
    for now_s in (10.0, 11.0):
        for agent in order:
            known.receive(report(samples[agent], agent=agent), now_s)
        got = known.announced(now_s)
        assert got.nodes["n1"].report.agent == "new"
        assert [str(conflict) for conflict in got.conflicts] == [
            "node n1 is claimed by agent new on h2 and by agent old on h1; agent new on h2 has it"
        ]


def test_of_equal_instances_the_older_claim_stays(known: Announcements) -> None:
    known.receive(report(claim(), agent="z"), 10.0)
    for now_s in (10.1, 10.3, 10.5):
        known.receive(report(claim(), agent="a"), now_s)
        known.receive(report(claim(), agent="z"), now_s + 0.1)
        assert known.announced(now_s + 0.1).nodes["n1"].report.agent == "z"


def test_two_hosts_with_one_agent_name_are_two_claims(known: Announcements) -> None:
    known.receive(report(claim(epoch=5, host="h1")), 10.0)
    known.receive(report(claim(epoch=4, host="h2")), 10.1)
    got = known.announced(10.1)
    assert got.nodes["n1"].node.host == "h1"
    assert len(got.conflicts) == 1


def test_a_silent_claim_yields_to_a_living_one(known: Announcements) -> None:
    known.receive(report(claim(epoch=9), agent="gone"), 10.0)
    known.receive(report(claim(epoch=1), agent="living"), 10.1 + LOST_S)
    got = known.announced(10.1 + LOST_S)
    assert got.nodes["n1"].report.agent == "living"
    assert not got.conflicts


def test_an_address_belongs_to_the_newest_instance_only(known: Announcements) -> None:
    known.receive(report(claim("old", epoch=5), claim("new", epoch=6)), 10.0)
    got = known.announced(10.0)
    assert list(got.nodes) == ["new"]
    assert [str(conflict) for conflict in got.conflicts] == [
        "address 192.0.2.1:8000 is claimed by node new and by node old; node new has it"
    ]


def test_a_renamed_node_takes_the_address_when_the_old_name_is_silent(
    known: Announcements,
) -> None:
    known.receive(report(claim("before", epoch=5)), 10.0)
    known.receive(report(claim("after", epoch=5)), 10.2 + LOST_S)
    got = known.announced(10.2 + LOST_S)
    assert list(got.nodes) == ["after"]
    assert not got.conflicts


def test_what_is_remembered_is_what_would_be_found_anew() -> None:
    random = Random(7)
    known, anew = Announcements(LOST_S, FORGET_S), Announcements(LOST_S, FORGET_S)
    # As over the wire: a node that does not change is the same object.
    told = functools.cache(claim)
    now_s, conflicts, forgotten = 0.0, 0, 0
    for _ in range(3000):
        now_s += random.choice([0.2, 0.2, 0.2, 2.0, 30.0]) if random.random() < 0.5 else 0.0
        name = random.choice("abcdef")
        # Mostly a fleet at peace; at times nodes restart, move, and are claimed twice.
        odd = random.random() < 0.05
        address = f"192.0.2.{random.randint(1, 3)}:80" if odd else f"192.0.2.1{ord(name)}:80"
        sample_of = told(name, random.choice([1, 1, 2]) if odd else 1, address)
        agent = f"agent-{random.randint(1, 2)}" if odd else f"agent-{name}"
        for announcements in (known, anew):
            announcements.receive(report(sample_of, agent=agent), now_s)
        anew._answer, anew._forget_s = None, -math.inf
        got, expected = known.announced(now_s), anew.announced(now_s)
        assert {name: sample_in(claim) for name, claim in got.nodes.items()} == {
            name: sample_in(claim) for name, claim in expected.nodes.items()
        }
        assert (got.conflicts, got.forgotten) == (expected.conflicts, expected.forgotten)
        conflicts, forgotten = conflicts + len(got.conflicts), forgotten + len(got.forgotten)
    assert conflicts and forgotten


def test_the_nodes_are_the_same_object_while_nobody_claims_anything_else(
    known: Announcements,
) -> None:
    one, two = claim("n1"), claim("n2", address="192.0.2.2:8000")
    known.receive(report(one, two), 10.0)
    first = known.announced(10.1).nodes
    known.receive(report(one, two), 10.2)
    assert known.announced(10.3).nodes is first and first["n1"].arrived_s == 10.2
    known.receive(report(claim("n1", epoch=2), two), 10.4)
    again = known.announced(10.5).nodes
    assert again is not first and again["n1"].node.instance_id == "n1@2"


def told(known: Announcements, now_s: float) -> list[str]:
    return sorted(map(str, known.announced(now_s).conflicts))


def test_two_living_streams_of_one_agent_name_are_a_conflict_until_one_ends(
    known: Announcements,
) -> None:
    for tick in range(20):
        for stream in (1, 2):
            known.receive(report(claim(), stream=stream), 10.0 + tick * 0.2)
    (conflict,) = told(known, 13.8)
    assert "agent a1 reports on two streams at once" in conflict
    nodes = known.announced(13.8).nodes
    assert known.announced(13.8).nodes is nodes
    for tick in range(40):
        known.receive(report(claim(), stream=1), 14.0 + tick * 0.2)
    assert told(known, 21.8) == []


def test_an_agent_that_connects_anew_is_no_conflict(known: Announcements) -> None:
    for tick in range(40):
        known.receive(report(claim(), stream=1 + tick // 10), 10.0 + tick * 0.2)
        # The last report of the stream before, which was on its way.
        if tick in (10, 20, 30):
            known.receive(report(claim(), stream=tick // 10), 10.0 + tick * 0.2)
        assert told(known, 10.0 + tick * 0.2) == []
