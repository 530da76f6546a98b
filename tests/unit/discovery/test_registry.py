"""All sources as one list."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import numpy as np
import pytest

from isocost.config import DiscoverySettings
from isocost.discovery.registry import Registry
from isocost.errors import ConfigError
from isocost.model import NodeSample
from tests.unit.fleet_builder import node, sample
from tests.unit.sample_blocks import agent_report

FILE = """
nodes:
- {name: f2, address: "192.0.2.12:80", rack: r1, host: h1}
- {name: f1, address: "192.0.2.11:80", rack: r1, host: h1}
"""


def registry(file: Path | None = None, started_s: float = 100.0) -> Registry:
    settings = DiscoverySettings(file=None if file is None else str(file))
    return Registry(settings, started_s, apart=lambda work: work())


def announce(to: Registry, now_s: float, *samples: NodeSample, agent: str = "a1") -> None:
    to.receive(agent_report(agent, 1, now_s, now_s, samples), now_s)


def at(name: str, address: str) -> NodeSample:
    return sample(node(name, address=address))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def names(of: Registry, now_s: float) -> list[str]:
    return [item.name for item in of.view(now_s).nodes]


def test_nodes_come_sorted_with_the_age_of_their_sample() -> None:
    known = registry()
    announce(known, 100.0, at("n2", "192.0.2.2:80"))
    announce(known, 100.5, at("n10", "192.0.2.10:80"), at("n1", "192.0.2.1:80"))
    view = known.view(101.0)
    assert [item.name for item in view.nodes] == ["n1", "n10", "n2"]
    assert view.ages_s.tolist() == [0.5, 0.5, 1.0]
    assert [sample and sample.node for sample in view.samples] == list(view.nodes)


def test_a_silent_node_is_there_until_it_is_forgotten_which_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = registry()
    announce(known, 100.0, at("n1", "192.0.2.1:80"))
    announce(known, 161.0, agent="a2")
    assert known.view(159.0).ages_s.tolist() == [59.0]
    assert not caplog.records
    for _ in range(2):
        assert known.view(160.1).nodes == ()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "out of the roster, since agent a1 is silent: n1")
    ]


def test_the_nodes_of_the_only_agent_stay_while_it_is_silent() -> None:
    known = registry()
    announce(known, 100.0, at("n1", "192.0.2.1:80"))
    assert names(known, 10_000.0) == ["n1"]


def test_a_node_of_the_file_exists_without_telemetry(file: Path) -> None:
    view = registry(file).view(100.0)
    assert [item.name for item in view.nodes] == ["f1", "f2"]
    assert list(view.samples) == [None, None]
    assert view.ages_s.tolist() == [math.inf, math.inf]
    assert np.isnan(view.clock_offsets_s).all()


def test_a_node_of_both_is_the_announced_one_until_that_is_forgotten(file: Path) -> None:
    known = registry(file)
    announce(known, 100.0, at("f1", "192.0.2.11:80"))
    announce(known, 161.0, agent="a2")
    before, after = known.view(100.0), known.view(161.0)
    assert before.samples[0] is not None and before.nodes[0].instance_id == "f1@1"
    assert after.samples[0] is None and after.nodes[0].instance_id == "f1@0"
    assert not known.state(100.0).conflicts


def test_file_and_agents_that_disagree_are_a_visible_conflict(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    known = registry(file)
    announce(known, 100.0, at("f1", "192.0.2.99:80"), at("other", "192.0.2.12:80"))
    for _ in range(3):
        assert names(known, 100.0) == ["f1", "other"]
    assert known.view(100.0).nodes[0].address == "192.0.2.99:80"
    assert len(known.state(100.0).conflicts) == 2
    assert len(caplog.records) == 2
    announce(known, 161.0, *(at(name, f"192.0.2.2{name}:80") for name in "123"))
    assert names(known, 161.0) == ["1", "2", "3", "f1", "f2"]
    assert not known.state(100.0).conflicts
    assert [r.message.split(":")[0] for r in caplog.records[3:]] == ["no longer"] * 2


def test_a_changed_file_shows_within_a_second_and_a_bad_one_is_told(file: Path) -> None:
    known = registry(file)
    file.write_text(FILE.replace("f2", "f3"), encoding="utf-8")
    assert names(known, 100.5) == ["f1", "f2"]
    assert names(known, 101.0) == ["f1", "f3"]
    file.write_text("nodes: 5", encoding="utf-8")
    assert names(known, 102.0) == ["f1", "f3"]
    (source,) = known.state(102.0).sources
    assert source.error is not None and "nodes" in source.error


def test_a_node_that_the_file_lost_is_gone_only_when_the_file_still_says_so(file: Path) -> None:
    known = registry(file)
    file.write_text("nodes: []", encoding="utf-8")
    assert names(known, 101.0) == names(known, 105.0) == ["f1", "f2"]
    assert names(known, 106.0) == []


def test_a_bad_file_at_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        registry(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("reports", "now_s", "done"),
    [
        ([], 104.9, False),
        ([], 105.0, True),
        ([()], 104.9, False),
        ([(), (at("n1", "192.0.2.1:80"),)], 100.2, True),
    ],
)
def test_discovery_is_done_with_the_first_node_or_when_it_had_time(
    reports: list[tuple[NodeSample, ...]], now_s: float, done: bool
) -> None:
    known = registry()
    for samples in reports:
        announce(known, 100.1, *samples)
    assert known.first_discovery_done(now_s) is done


def test_a_file_of_nodes_is_a_discovery(file: Path) -> None:
    assert registry(file).first_discovery_done(100.0)
