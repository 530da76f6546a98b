"""A control plane that follows a list, on a fake clock, from the source to what it publishes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from isocost.config import ControlPlaneConfig, DiscoverySettings
from isocost.discovery.listing import Watch
from isocost.discovery.registry import Registry
from isocost.manual import Manual
from isocost.model import Node, NodeState
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver
from isocost.pipeline import Pipeline
from isocost.push.cache import Cache
from isocost.push.type_urls import ENDPOINTS, ROSTER
from isocost.weight.standing import Reason
from tests.unit.discovery.fake_watch import FakeWatch
from tests.unit.fleet_builder import node, sample
from tests.unit.sample_blocks import agent_report

UNIX_MS = 1_790_000_000_000
TICK_S = 0.2
#: The first roster is out by then.
READY_S = 1.0


class Clock:
    """A control plane with one list; agents that speak do so before each tick. ``follows`` is
    another source of the list than ``watch``.
    """

    def __init__(self, expected: Set[str] = frozenset(), follows: Watch | None = None) -> None:
        self.watch = FakeWatch()
        settings = DiscoverySettings()
        self.registry = Registry(settings, 0.0, watches=(follows or self.watch,))
        self.observer = FleetObserver(10.0, 5.0)
        self.cache = Cache()
        self.pipeline = Pipeline(
            ControlPlaneConfig(discovery=settings),
            self.registry,
            self.observer,
            self.cache,
            Manual(),
            expected,
        )
        self.now_s = 0.0
        self.speaking: list[Node] = []
        self.in_flight: dict[str, int] = {}
        self._sequence = 0

    def tick(self, after_s: float = TICK_S) -> None:
        self.now_s += after_s
        self._sequence += 1
        for speaker in self.speaking:
            report = agent_report(
                speaker.host, self._sequence, self.now_s, self.now_s, (sample(speaker),)
            )
            self.registry.receive(report, self.now_s)
        open_there = tuple(
            NodeObservation(item.id, in_flight=self.in_flight.get(item.name, 0))
            for item in self.pipeline.nodes
        )
        self.observer.apply(Batch("edge", 1, self._sequence, open_there), self.now_s)
        self.pipeline.tick(self.now_s, UNIX_MS + int(self.now_s * 1e3))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self.tick()

    @property
    def published(self) -> bool:
        """Are nodes, be it none, told to filter and Envoy? To both or to neither."""
        told = {self.cache.snapshot.get(type_url) is not None for type_url in (ROSTER, ENDPOINTS)}
        assert len(told) == 1
        return told == {True}

    def nodes(self) -> list[str]:
        return [item.name for item in self.pipeline.nodes]

    def of(self, name: str) -> tuple[NodeState, Reason]:
        latest = self.pipeline.latest
        assert latest is not None
        standing = latest.decision.state.standings[self.nodes().index(name)]
        return standing.state, standing.reason

    async def refuse(self, *addresses: str) -> None:
        """The control plane's probes of these fail."""

        async def connect(address: str) -> bool:
            return address not in addresses

        self.registry.probes._connect = connect
        for item in self.pipeline.nodes:
            await self.registry.probes.check(item.address)


def fleet(*numbers: int, epoch: int = 0) -> list[Node]:
    return [
        replace(
            node(f"n{number}", address=f"192.0.2.{number}:80"),
            instance_id=f"n{number}@{epoch}",
            host=f"h{number}",
        )
        for number in numbers
    ]


def listed(*numbers: int) -> Clock:
    """Nodes without agents, in service."""
    clock = Clock()
    clock.watch.says(0.0, *fleet(*numbers))
    clock.run(READY_S)
    assert len(clock.nodes()) == len(numbers)
    return clock


def streaming(*numbers: int) -> Clock:
    """Nodes with agents and on the list, in service."""
    clock = Clock()
    clock.speaking = fleet(*numbers, epoch=17)
    clock.watch.says(0.0, *fleet(*numbers))
    clock.run(READY_S)
    assert all(clock.of(name) == (NodeState.SERVING, Reason.OK) for name in clock.nodes())
    return clock
