"""A report of the same nodes replaces the one before for all of them at once, and what a tick then
sees is what it would see if each node had been taken by itself.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

from isocost.config import DiscoverySettings
from isocost.discovery.registry import Registry
from isocost.discovery.report import AgentReport, ReportReader
from isocost.model import Node, NodeSample, measured
from isocost.telemetry.report import StreamMemory, encode_report
from tests.unit.fleet_builder import node, sample

START_S = 100.0
N1, N2 = (node(name, address=f"192.0.2.{name[1]}:80", host="h1") for name in ("n1", "n2"))


class Stream:
    """An agent's stream, read as it comes over the wire."""

    _numbers = itertools.count(1)

    def __init__(self, agent: str) -> None:
        self.agent, self.sequence = agent, 0
        self._reader, self._memory = ReportReader(next(self._numbers)), StreamMemory()

    def report(self, now_s: float, *samples: NodeSample) -> AgentReport:
        self.sequence += 1
        report = encode_report(self.agent, self.sequence, now_s, now_s, samples)
        self._memory.shorten(report)
        return self._reader.read(report.SerializeToString(), now_s)


class OneByOne(Registry):
    """Takes each node of each report by itself, and looks for all samples anew."""

    def receive(self, report: AgentReport, now_s: float) -> None:
        self._announcements._heard.clear()
        super().receive(report, now_s)


def new() -> Registry:
    return Registry(DiscoverySettings(), START_S)


def waiting(of: Node, value: float, offset_s: float = 0.0) -> NodeSample:
    found = sample(of)
    engine = replace(found.engine, waiting=measured(value))
    return replace(found, engine=engine, clock_offset_s=offset_s)


def of(name: str, epoch: int, host: str) -> Node:
    return node(name, instance_id=f"{name}@{epoch}", address=f"192.0.2.{name[1]}:80", host=host)


def seen(by: Registry, now_s: float) -> list[tuple[str, float, float, float]]:
    """Of each node: name, requests that wait, the sample's age, and the node's clock's offset."""
    view = by.view(now_s)
    assert [found and found.node for found in view.samples] == list(view.nodes)
    return [
        (found.node.name, found.engine.waiting.value, round(age_s, 6), round(offset_s, 6))
        for found, age_s, offset_s in zip(
            filter(None, view.samples),
            view.ages_s.tolist(),
            view.clock_offsets_s.tolist(),
            strict=True,
        )
    ]


def test_a_report_replaces_the_samples_of_all_its_nodes() -> None:
    known, stream = new(), Stream("a1")
    known.receive(stream.report(100.0, waiting(N1, 1.0), waiting(N2, 2.0)), 100.0)
    before = known.view(100.1)
    known.receive(stream.report(100.2, waiting(N1, 3.0), waiting(N2, 4.0, 0.5)), 100.2)
    assert seen(known, 100.3) == [("n1", 3.0, 0.1, 0.0), ("n2", 4.0, 0.1, 0.5)]
    again = known.view(100.3)
    # Nothing is looked for again.
    assert again.nodes is before.nodes and again.samples.layout is before.samples.layout
    # What an earlier tick was given stays what it was.
    assert [found and found.engine.waiting.value for found in before.samples] == [1.0, 2.0]


def test_a_report_that_was_overtaken_or_came_twice_changes_none_of_its_nodes() -> None:
    known, stream = new(), Stream("a1")
    first, second, third = (
        stream.report(100.0 + 0.2 * turn, waiting(N1, turn), waiting(N2, turn)) for turn in range(3)
    )
    for turn, report in enumerate((first, third, second, third)):
        known.receive(report, 100.4 + 0.1 * turn)
    assert seen(known, 100.8) == [("n1", 2.0, 0.3, 0.0), ("n2", 2.0, 0.3, 0.0)]


def test_a_node_that_is_not_named_any_more_keeps_what_was_told_last() -> None:
    known, stream = new(), Stream("a1")
    known.receive(stream.report(100.0, waiting(N1, 1.0), waiting(N2, 2.0)), 100.0)
    for turn in (1, 2):
        now_s = 100.0 + 0.2 * turn
        known.receive(stream.report(now_s, waiting(N1, 5.0 + turn)), now_s)
    assert seen(known, 100.5) == [("n1", 7.0, 0.1, 0.0), ("n2", 2.0, 0.5, 0.0)]


def test_a_node_that_was_forgotten_is_there_again_with_the_next_report_of_its_stream() -> None:
    known, stream, other = new(), Stream("a1"), Stream("a2")
    reports = [stream.report(100.0 + 0.2 * turn, waiting(N1, turn)) for turn in range(3)]
    known.receive(reports[1], 100.0)
    # It speaks later than what of it counts.
    known.receive(reports[0], 101.0)
    known.receive(other.report(160.5, waiting(N2, 5.0)), 160.5)
    assert seen(known, 160.5) == [("n2", 5.0, 0.0, 0.0)]
    known.receive(reports[2], 160.6)
    assert [name for name, *_ in seen(known, 160.6)] == ["n1", "n2"]


def test_at_once_is_as_one_by_one() -> None:
    random = Random(5)
    at_once, one_by_one = new(), OneByOne(DiscoverySettings(), START_S)
    names = [f"n{number}" for number in range(6)]
    streams = [Stream(f"agent-{number % 3}") for number in range(4)]
    told = [names[number : number + 3] for number in range(4)]
    epochs = dict.fromkeys(names, 1)
    late: list[AgentReport] = []
    now_s, conflicts, gone, shared = START_S, 0, 0, 0
    for step in range(3000):
        now_s += random.choice([0.05, 0.05, 0.2, 4.0]) if random.random() < 0.9 else 70.0
        number = random.randrange(len(streams))
        if random.random() < 0.03:
            streams[number] = Stream(streams[number].agent)
        if random.random() < 0.05:
            told[number] = random.sample(names, random.randint(0, 4))
        if random.random() < 0.01:
            epochs[random.choice(names)] += 1
        host = f"h{number if random.random() < 0.02 else number % 3}"
        samples = [
            waiting(of(name, epochs[name], host), float(step), random.choice([0.0, 0.25]))
            for name in told[number]
        ]
        report = streams[number].report(now_s, *samples)
        if random.random() < 0.1:
            late.append(report)
            continue
        reports = [report]
        if late and random.random() < 0.3:
            reports.append(late.pop(0))
        for each in reports:
            heard = at_once._announcements._heard.get(each.agent)
            shared += heard is not None and heard.report.block.entries is each.block.entries
            for registry in (at_once, one_by_one):
                registry.receive(each, now_s)
        before = len(at_once.view(now_s).nodes)
        assert seen(at_once, now_s + 0.01) == seen(one_by_one, now_s + 0.01)
        assert at_once.state(now_s).conflicts == one_by_one.state(now_s).conflicts
        conflicts += bool(at_once.state(now_s).conflicts)
        gone += before < len(names)
    assert conflicts and gone and shared > 300
