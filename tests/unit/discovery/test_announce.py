"""What agents announce: the latest sample, silence, restarts, and two claims of one thing."""

from __future__ import annotations

import pytest

from isocost.discovery.announce import Announcements
from isocost.discovery.report import AgentReport
from isocost.model import NodeSample
from tests.unit.fleet_builder import node, sample

LOST_S, FORGET_S = 3.0, 60.0


@pytest.fixture
def known() -> Announcements:
    return Announcements(LOST_S, FORGET_S)


def report(*samples: NodeSample, agent: str = "a1", sequence: int = 1) -> AgentReport:
    return AgentReport(agent, sequence, 0.0, 0.0, samples)


def claim(
    name: str = "n1", epoch: int = 1, address: str = "192.0.2.1:8000", host: str = "h1"
) -> NodeSample:
    return sample(node(name, instance_id=f"{name}@{epoch}", address=address, host=host))


def test_the_latest_sample_counts(known: Announcements) -> None:
    one = node("n1")
    known.receive(report(sample(one, waiting=1.0), sequence=1), 10.0)
    known.receive(report(sample(one, waiting=2.0), sequence=2), 10.2)
    got = known.announced(10.3).nodes["n1"]
    assert got.sample.engine.waiting.value == 2.0
    assert (got.agent, got.sequence, got.arrived_s) == ("a1", 2, 10.2)


def test_silence_makes_a_node_lost_and_then_forgotten(known: Announcements) -> None:
    known.receive(report(claim()), 10.0)
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


def test_nodes_that_fall_silent_together_are_kept_and_one_of_many_is_forgotten(
    known: Announcements,
) -> None:
    claims = [claim(f"n{number}", address=f"192.0.2.{number}:1") for number in range(1, 5)]
    known.receive(report(*claims), 10.0)
    late_s = 10.1 + FORGET_S
    assert len(known.announced(late_s).nodes) == 4
    known.receive(report(*claims[:3]), late_s)
    assert known.announced(late_s).nodes.keys() == {"n1", "n2", "n3"}


@pytest.mark.parametrize("epoch", [6, 4])
def test_an_agent_may_replace_its_own_instance_by_any_other(
    known: Announcements, epoch: int
) -> None:
    known.receive(report(claim(epoch=5)), 10.0)
    known.receive(report(claim(epoch=epoch)), 10.2)
    got = known.announced(10.2)
    assert got.nodes["n1"].sample.node.instance_id == f"n1@{epoch}"
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
        assert got.nodes["n1"].agent == "new"
        assert [str(conflict) for conflict in got.conflicts] == [
            "node n1 is claimed by agent new on h2 and by agent old on h1; the first one has it"
        ]


def test_of_equal_instances_the_older_claim_stays(known: Announcements) -> None:
    known.receive(report(claim(), agent="z"), 10.0)
    for now_s in (10.1, 10.3, 10.5):
        known.receive(report(claim(), agent="a"), now_s)
        known.receive(report(claim(), agent="z"), now_s + 0.1)
        assert known.announced(now_s + 0.1).nodes["n1"].agent == "z"


def test_two_hosts_with_one_agent_name_are_two_claims(known: Announcements) -> None:
    known.receive(report(claim(epoch=5, host="h1")), 10.0)
    known.receive(report(claim(epoch=4, host="h2")), 10.1)
    got = known.announced(10.1)
    assert got.nodes["n1"].sample.node.host == "h1"
    assert len(got.conflicts) == 1


def test_a_silent_claim_yields_to_a_living_one(known: Announcements) -> None:
    known.receive(report(claim(epoch=9), agent="gone"), 10.0)
    known.receive(report(claim(epoch=1), agent="living"), 10.1 + LOST_S)
    got = known.announced(10.1 + LOST_S)
    assert got.nodes["n1"].agent == "living"
    assert not got.conflicts


def test_an_address_belongs_to_the_newest_instance_only(known: Announcements) -> None:
    known.receive(report(claim("old", epoch=5), claim("new", epoch=6)), 10.0)
    got = known.announced(10.0)
    assert list(got.nodes) == ["new"]
    assert [str(conflict) for conflict in got.conflicts] == [
        "address 192.0.2.1:8000 is claimed by node new and by node old; the first one has it"
    ]


def test_a_renamed_node_takes_the_address_when_the_old_name_is_silent(
    known: Announcements,
) -> None:
    known.receive(report(claim("before", epoch=5)), 10.0)
    known.receive(report(claim("after", epoch=5)), 10.2 + LOST_S)
    got = known.announced(10.2 + LOST_S)
    assert list(got.nodes) == ["after"]
    assert not got.conflicts
