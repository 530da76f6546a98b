"""Lists of nodes and agents as one fleet."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from isocost.config import DiscoverySettings
from isocost.discovery.listing import Check, Listed, Listing, Source
from isocost.discovery.registry import OLD_S, Registry
from isocost.discovery.resolver import Answer
from isocost.errors import ResolveError
from isocost.model import Node, NodeSample
from isocost.weight.told import Told
from tests.unit.discovery.fake_watch import FakeWatch
from tests.unit.fleet_builder import node, sample
from tests.unit.sample_blocks import agent_report

START_S = 100.0
FILE = """
nodes:
- {name: n1, address: "192.0.2.1:80", rack: r1, host: h1}
- {name: n9, address: "192.0.2.9:80", rack: r1, host: h1}
"""


class Bench:
    """A registry with one watched source."""

    def __init__(self, file: Path | None = None) -> None:
        self.watch = FakeWatch()
        settings = DiscoverySettings(file=None if file is None else str(file))
        self.registry = Registry(
            settings, START_S, apart=lambda work: work(), watches=(self.watch,)
        )

    def announce(self, now_s: float, *samples: NodeSample, agent: str = "a1") -> None:
        report = agent_report(agent, 1, now_s, now_s, samples)
        self.registry.receive(report, now_s)

    def names(self, now_s: float) -> list[str]:
        return [item.name for item in self.registry.view(now_s).nodes]

    def told(self, now_s: float) -> dict[str, Told]:
        view = self.registry.view(now_s)
        if view.discovered is None:
            return {}
        codes = view.discovered.told.tolist()
        return {item.name: Told(code) for item, code in zip(view.nodes, codes, strict=True) if code}

    async def refuse(self, *addresses: str) -> None:
        """The control plane's probes of these fail."""

        async def connect(address: str) -> bool:
            return address not in addresses

        self.registry.probes._connect = connect
        for address in addresses:
            await self.registry.probes.check(address)


def fleet(*numbers: int) -> list[Node]:
    return [
        replace(node(f"n{number}", address=f"192.0.2.{number}:80"), instance_id=f"n{number}@0")
        for number in numbers
    ]


def agents(*numbers: int) -> list[NodeSample]:
    return [sample(node(f"n{number}", address=f"192.0.2.{number}:80")) for number in numbers]


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isocost.discovery.probe.BETWEEN_S", 0.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_node_of_all_sources_is_one_and_its_agent_knows_best(file: Path) -> None:
    bench = Bench(file)
    bench.watch.says(START_S, *fleet(1, 2))
    assert bench.names(START_S) == ["n1", "n2", "n9"]
    bench.announce(START_S, *agents(1))
    view = bench.registry.view(START_S)
    assert [item.instance_id for item in view.nodes] == ["n1@1", "n2@0", "n9@0"]
    assert not bench.registry.state(START_S).conflicts


def test_a_silent_node_gives_its_address_to_the_one_that_a_list_has_there(file: Path) -> None:
    bench = Bench(file)
    bench.watch.says(START_S, *fleet(9))

    def x1_at(now_s: float) -> None:
        bench.announce(now_s, sample(node("x1", address="192.0.2.1:80")))
        bench.announce(now_s, *agents(9), agent="a2")

    x1_at(START_S)
    assert bench.names(START_S) == ["n9", "x1"]
    silent_s = START_S + 3.1
    bench.announce(silent_s, *agents(9), agent="a2")
    assert bench.names(silent_s) == ["n1", "n9"]
    assert bench.registry.state(silent_s).conflicts == ()
    before = bench.registry.view(silent_s).nodes
    assert bench.registry.view(silent_s).nodes is before
    x1_at(silent_s + 0.2)
    assert bench.names(silent_s + 0.2) == ["n9", "x1"]
    assert len(bench.registry.state(silent_s).conflicts) == 1


def test_a_silent_node_that_a_list_has_at_its_address_too_stays(file: Path) -> None:
    bench = Bench(file)
    bench.watch.says(START_S, replace(fleet(1)[0], name="m1"))
    bench.announce(START_S, *agents(1, 9))
    assert bench.names(START_S) == ["n1", "n9"]
    silent_s = START_S + 3.1
    assert bench.names(silent_s) == ["n1", "n9"]
    assert bench.registry._merged.claims[0].arrived_s == START_S, "it is its agent's no longer"


def test_lists_that_disagree_are_a_visible_conflict_and_the_first_counts(file: Path) -> None:
    bench = Bench(file)
    (one,) = fleet(1)
    bench.watch.says(START_S, replace(one, address="192.0.2.77:80"), *fleet(3))
    assert bench.registry.view(START_S).nodes[0].address == "192.0.2.1:80"
    assert bench.registry.state(START_S).conflicts == (
        "node n1 is claimed by the file and by the consul's other address; the file has it",
    )
    bench.watch.says(START_S, one, *fleet(3), replace(one, name="other"))
    bench.registry.view(START_S)
    assert bench.registry.state(START_S).conflicts == (
        "address 192.0.2.1:80 is claimed by node n1 and by the consul's other; node n1 has it",
    )


def test_what_one_list_still_has_is_not_withdrawn_and_the_worst_check_counts(file: Path) -> None:
    bench = Bench(file)
    bench.watch.says(START_S, *fleet(1, 2, 9))
    bench.names(START_S)
    bench.watch.says(START_S + 1, *fleet(2, 9), n2=Check.WARNING, n9=Check.MAINTENANCE)
    assert bench.told(START_S + 1) == {"n2": Told.WARNING, "n9": Told.MAINTENANCE}
    assert bench.names(START_S + 1) == ["n1", "n2", "n9"]


def test_a_withdrawn_node_with_an_agent_stays_as_withdrawn_and_one_without_leaves() -> None:
    bench = Bench()
    bench.announce(START_S, *agents(1, 2))
    bench.watch.says(START_S, *fleet(1, 2, 3, 4))
    assert bench.told(START_S) == {}
    bench.watch.says(START_S + 1, *fleet(2, 4))
    assert bench.told(START_S + 1) == {"n1": Told.WITHDRAWN}
    assert bench.names(START_S + 1) == ["n1", "n2", "n4"]


async def test_an_empty_answer_is_believed_of_nodes_that_are_silent_and_refuse_only() -> None:
    """An agent that stops takes its nodes off the list: that is no second witness."""
    bench = Bench()
    bench.announce(START_S, *agents(1), agent="a1")
    bench.announce(START_S, *agents(2), agent="a2")
    bench.watch.says(START_S, *fleet(1, 2))
    bench.names(START_S)
    bench.watch.says(START_S + 1)
    assert bench.told(START_S + 1) == {}
    bench.announce(START_S + 3, *agents(2), agent="a2")
    assert bench.told(START_S + 3.1) == {}
    await bench.refuse("192.0.2.1:80", "192.0.2.2:80")
    assert bench.told(START_S + 3.2) == {"n1": Told.WITHDRAWN}
    (source,) = bench.registry.state(START_S + 3.2).sources
    assert source.held == {"n2": Told.WITHDRAWN}


async def test_an_empty_answer_is_believed_of_nodes_that_refuse_the_probes_only() -> None:
    bench = Bench()
    bench.watch.says(START_S, *fleet(1, 2, 3))
    bench.names(START_S)
    bench.watch.says(START_S + 1)
    assert bench.names(START_S + 100) == ["n1", "n2", "n3"]
    await bench.refuse("192.0.2.2:80")
    assert bench.names(START_S + 101) == ["n1", "n3"]


async def test_a_node_that_a_list_calls_gone_is_probed_though_it_has_an_agent() -> None:
    bench = Bench()
    bench.announce(START_S, *agents(1, 2, 3))
    bench.watch.says(START_S, *fleet(1, 2, 3))
    bench.names(START_S)
    bench.watch.says(START_S, *fleet(2, 3), n3=Check.AGENT_LATE)
    bench.names(START_S)
    await bench.refuse("192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80")
    assert bench.registry.probes.unreachable == {"192.0.2.1:80", "192.0.2.3:80"}


async def test_a_ghost_is_shown_and_a_node_with_an_agent_is_not_probed() -> None:
    bench = Bench()
    bench.announce(START_S, *agents(1))
    bench.watch.says(START_S, *fleet(1, 2, 3))
    bench.names(START_S)
    await bench.refuse("192.0.2.1:80", "192.0.2.2:80")
    view = bench.registry.view(START_S + 1)
    assert view.discovered is not None
    assert view.discovered.unreachable.tolist() == [False, True, False]
    assert bench.registry.state(START_S + 1).unreachable == ("n2",)


async def test_names_are_resolved_and_the_unresolved_shown_outside_the_roster() -> None:
    bench = Bench()

    async def look_up(host: str) -> Answer:
        if host != "good.example.org":
            raise ResolveError(f"{host}: no such name")
        return Answer(("192.0.2.1",), 60.0)

    first, second, third = fleet(1, 2, 3)
    bench.watch.says(
        START_S,
        replace(first, address="good.example.org:80"),
        replace(second, address="bad.example.org:80"),
        third,
    )
    assert bench.names(START_S) == ["n3"]
    await bench.registry.names.refresh(look_up, START_S)
    assert bench.names(START_S + 1) == ["n1", "n3"]
    assert bench.registry.view(START_S + 1).nodes[0].address == "192.0.2.1:80"
    assert bench.registry.state(START_S + 1).unresolved == {
        "n2": ("bad.example.org:80", "bad.example.org: no such name")
    }


async def test_two_names_of_one_address_are_one_node() -> None:
    bench = Bench()

    async def look_up(_: str) -> Answer:
        return Answer(("192.0.2.1",), 60.0)

    first, second = fleet(1, 2)
    bench.watch.says(START_S, replace(first, address="a:80"), replace(second, address="b:80"))
    bench.names(START_S)
    await bench.registry.names.refresh(look_up, START_S)
    assert bench.names(START_S + 1) == ["n1"]
    assert len(bench.registry.state(START_S + 1).conflicts) == 1


def test_nothing_is_made_anew_while_nothing_changes() -> None:
    bench = Bench()
    bench.announce(START_S, *agents(1))
    bench.watch.says(START_S, *fleet(1, 2), n2=Check.WARNING)
    first = bench.registry.view(START_S)
    bench.watch.confirms(START_S + 1)
    second = bench.registry.view(START_S + 1)
    assert second.nodes is first.nodes and second.discovered is first.discovered


def test_the_first_roster_waits_for_the_first_answer_but_not_for_ever() -> None:
    bench = Bench()
    bench.announce(START_S, *agents(1))
    bench.names(START_S + 1)
    assert not bench.registry.first_discovery_done(START_S + 4.9)
    assert bench.registry.first_discovery_done(START_S + 5.0)
    bench.watch.says(START_S + 1, *fleet(1))
    assert bench.registry.first_discovery_done(START_S + 1)


def test_nothing_empty_is_meant_while_a_source_has_not_answered() -> None:
    bench = Bench()
    bench.names(START_S + 1000.0)
    assert not bench.registry.first_discovery_done(START_S + 1000.0)
    bench.watch.says(START_S + 1000.0)
    bench.names(START_S + 1000.0)
    assert bench.registry.first_discovery_done(START_S + 1000.0)


async def test_the_first_roster_waits_until_every_name_was_asked_for() -> None:
    bench = Bench()

    async def look_up(host: str) -> Answer:
        raise ResolveError(f"{host}: no such name")

    first, second = fleet(1, 2)
    bench.watch.says(START_S, first, replace(second, address="bad.example.org:80"))
    bench.names(START_S)
    assert not bench.registry.first_discovery_done(START_S)
    await bench.registry.names.refresh(look_up, START_S)
    assert bench.registry.first_discovery_done(START_S)


def test_nothing_empty_is_meant_while_all_names_are_unresolved() -> None:
    bench = Bench()
    (first,) = fleet(1)
    bench.watch.says(START_S, replace(first, address="good.example.org:80"))
    bench.names(START_S)
    assert not bench.registry.first_discovery_done(START_S + 1000.0)


def test_a_source_away_for_a_minute_or_with_agents_leaves_the_data_good() -> None:
    bench = Bench()
    bench.announce(START_S, *agents(1, 2))
    bench.watch.says(START_S, *fleet(1, 2, 3))
    bench.names(START_S)
    bench.watch.fails("connection refused")
    assert bench.registry.old_data(START_S + 60.0) is None
    late_s = START_S + 10 * OLD_S
    bench.announce(late_s, *agents(1, 2))
    bench.names(late_s)
    assert bench.registry.old_data(late_s) is None


def test_old_data_of_nodes_without_agents_says_whose_and_why() -> None:
    bench = Bench()
    bench.watch.says(START_S, *fleet(1, 2))
    bench.names(START_S)
    bench.watch.fails("connection refused")
    bench.names(START_S + OLD_S + 1)
    assert bench.registry.old_data(START_S + OLD_S) is None
    reason = bench.registry.old_data(START_S + OLD_S + 1)
    assert reason is not None and "consul" in reason and "connection refused" in reason
    bench.watch.confirms(START_S + OLD_S + 1)
    assert bench.registry.old_data(START_S + OLD_S + 1) is None


def test_a_file_that_cannot_be_used_is_no_old_data(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text("nodes: [{name: n1, address: '192.0.2.1:80', rack: r, host: h}]")
    settings = DiscoverySettings(file=str(path))
    registry = Registry(settings, START_S, apart=lambda work: work())
    path.write_text("nodes: 7")
    late_s = START_S + 2 * OLD_S
    registry.view(late_s)
    (source,) = registry.state(late_s).sources
    assert source.error is not None and source.age_s > OLD_S
    assert registry.old_data(late_s) is None


def test_the_state_shows_each_source_with_age_error_and_what_it_refused() -> None:
    bench = Bench()
    (waiting,) = bench.registry.state(START_S).sources
    assert not waiting.answered and waiting.error == "it has not answered yet"
    listing = Listing((Listed(fleet(1)[0]),), ("n2: port: 0 is not allowed",))
    bench.watch.source = Source("consul", listing, START_S)
    bench.names(START_S)
    (source,) = bench.registry.state(START_S + 7).sources
    assert (source.name, source.nodes, source.age_s, source.error) == ("consul", 1, 7.0, None)
    assert source.refused == ("n2: port: 0 is not allowed",) and source.without_agent == 1


def test_a_conflict_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    bench.announce(START_S, *agents(1))
    (first,) = fleet(1)
    bench.watch.says(START_S, replace(first, address="192.0.2.77:80"))
    for _ in range(3):
        bench.names(START_S)
    assert len(caplog.records) == 1
