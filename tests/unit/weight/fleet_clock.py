"""A fleet on a clock of its own: what gateways and agents would tell, tick by tick."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from isocost.config import EntropySettings, StateSettings
from isocost.model import (
    ABSENT,
    EngineSample,
    GpuSample,
    Node,
    NodeSample,
    NodeState,
    Signal,
    measured,
)
from isocost.observe.batch import NO_PREFILLS, Batch, NodeObservation, PrefillSums
from isocost.observe.fleet import FleetObserver, Observed
from isocost.score.constants import roster_constants
from isocost.score.model_rows import model_rows
from isocost.weight.fleet_states import FleetState, FleetStates, Orders
from isocost.weight.guards import Guards, Scored
from isocost.weight.standing import Reason, Transition
from isocost.weight.told import Discovered, Told
from tests.unit.fleet_builder import node, sample, telemetry_of
from tests.unit.hardware_samples import TAKEN_S
from tests.unit.sample_blocks import fleet_samples

TICK_S = 0.2
LOST_AFTER_S = 3.0
#: The prompts of nodes that stream, and what they take.
PROMPT_TOKENS, PROMPT_S = 500.0, 0.05

Outcomes = dict[str, int]


class FleetClock:
    """Real observer, real states. Nodes are well until a test changes what is said of them.

    ``traffic`` holds what every tick brings to a node, by name, for as long as the node may get
    anything; ``frozen`` engines work on nothing; ``without_counters`` have pages without tokens;
    ``steps`` is what a page says whose tokens count at a request's end; ``engine_running`` is what
    a page says where that is not what is open, and ``engine_waiting`` what it says of its queue;
    pages in ``still`` repeat what they said last, those in ``page_hangs`` do not come;
    ``late_s`` is by how much first tokens are late, of nodes that stream; ``gpus`` are those of
    nodes whose hardware a test is about; ``told`` is what lists say of nodes, and
    ``unreachable`` those that refuse the control plane's probes.
    """

    def __init__(self, *names: str, settings: StateSettings | None = None) -> None:
        self.settings = settings or StateSettings()
        self.now_s = 1000.0
        self.nodes: list[Node] = [node(name) for name in names]
        self.traffic: dict[str, Outcomes] = {}
        self.engine_down: set[str] = set()
        self.page_hangs: set[str] = set()
        self.silent_since_s: dict[str, float] = {}
        self.without_agent: set[str] = set()
        self.frozen: set[str] = set()
        self.without_counters: set[str] = set()
        self.steps: dict[str, Signal] = {}
        self.kv_usage: defaultdict[str, float] = defaultdict(lambda: 0.5)
        self.clock_offset_s: defaultdict[str, float] = defaultdict(float)
        self.drains: dict[str, float] = {}
        self.held: set[str] = set()
        self.gateway_silent = False
        self.engine_running: dict[str, Signal] = {}
        self.engine_waiting: dict[str, Signal] = {}
        self.still: set[str] = set()
        self.late_s: dict[str, float] = {}
        self.gpus: dict[str, GpuSample] = {}
        self.told: dict[str, Told] = {}
        self.unreachable: set[str] = set()
        self.transitions: list[Transition] = []
        self.state: FleetState
        self.scored: Scored
        self.observed: Observed
        self._observer = FleetObserver(10.0, self.settings.window_s)
        self._guards = Guards(self.settings, EntropySettings())
        self._states = FleetStates(self.settings, LOST_AFTER_S)
        self._open: defaultdict[str, list[float]] = defaultdict(list)
        self._news: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._tokens: Counter[str] = Counter()
        self._pages: dict[str, EngineSample] = {}
        self._factors: dict[str, float] = {}
        self._sequence = 0

    def tick(self) -> FleetState:
        """One tick later."""
        self.now_s += TICK_S
        first, self._sequence = self._sequence == 0, self._sequence + 1
        nodes = tuple(self.nodes)
        rows = model_rows(nodes)
        observations = tuple(self._observation(item) for item in nodes)
        if not self.gateway_silent:
            self._observer.apply(Batch("edge", 1, self._sequence, observations), self.now_s)
        samples = [self._sample(item) for item in nodes]
        self.observed = self._observer.view([item.id for item in nodes], self.now_s)
        ages_s = [self._age_s(found) for found in samples]
        self.scored = scored = self._guards.tick(
            nodes,
            telemetry_of(nodes, samples, ages_s),
            np.array([self.clock_offset_s[item.name] for item in nodes]),
            self.observed,
            roster_constants(nodes, EntropySettings()),
            rows.pool[rows.first],
            self.now_s,
        )
        self.state = self._states.tick(
            nodes,
            fleet_samples(samples),
            ages_s,
            scored.signs,
            self.observed,
            Orders({name: self.now_s - at_s for name, at_s in self.drains.items()}, self.held),
            self.now_s,
            adopting=first,
            guarded=scored.guarded,
            discovered=self._discovered(),
        )
        names = [item.name for item in nodes]
        self._factors = dict(zip(names, self.state.factor.tolist(), strict=True))
        self.transitions += self.state.transitions
        return self.state

    def _discovered(self) -> Discovered:
        names = [item.name for item in self.nodes]
        return Discovered(
            np.array([self.told.get(name, Told.NOTHING) for name in names], dtype=np.int8),
            np.array([name in self.unreachable for name in names], dtype=np.bool_),
        )

    def run(self, seconds: float) -> FleetState:
        for _ in range(round(seconds / TICK_S)):
            self.tick()
        return self.state

    def seconds_until(self, name: str, state: NodeState, within_s: float) -> float:
        """How long it takes until the node has that state; AssertionError if longer."""
        start_s = self.now_s
        while self.of(name)[0] is not state:
            assert self.now_s - start_s < within_s, (name, self.of(name))
            self.tick()
        return self.now_s - start_s

    def start(self, name: str, count: int = 1) -> None:
        """Requests begin and stay open."""
        self._open[name] += [self.now_s] * count
        self._news[name]["started"] += count

    def end(self, name: str, **outcomes: int) -> None:
        """That many of the open requests end so, the oldest first."""
        del self._open[name][: sum(outcomes.values())]
        self._news[name].update(outcomes)

    def once(self, name: str, **outcomes: int) -> None:
        """Requests that begin and end before the next tick."""
        self._news[name].update(outcomes, started=sum(outcomes.values()))

    def agent_is_silent(self, name: str) -> bool:
        return self.now_s - self.silent_since_s.get(name, self.now_s) > LOST_AFTER_S

    def open_requests(self, name: str) -> int:
        return len(self._open[name])

    def restart(self, name: str) -> None:
        """The engine is another instance from now on, and what was open on it is gone."""
        index = self.index(name)
        epoch = int(self.nodes[index].instance_id.rpartition("@")[2]) + 1
        self.nodes[index] = replace(self.nodes[index], instance_id=f"{name}@{epoch}")
        self._open.pop(name, None)

    def index(self, name: str) -> int:
        return [item.name for item in self.nodes].index(name)

    def of(self, name: str) -> tuple[NodeState, Reason]:
        standing = self.state.standings[self.index(name)]
        return standing.state, standing.reason

    def factor(self, name: str) -> float:
        return self._factors[name]

    def count(self, state: NodeState) -> int:
        return sum(standing.state is state for standing in self.state.standings)

    def path(self, name: str) -> list[tuple[NodeState, Reason]]:
        """Every state and reason that the node has been in."""
        changes = [change for change in self.transitions if change.node == name]
        return [(change.after.state, change.after.reason) for change in changes]

    def _observation(self, item: Node) -> NodeObservation:
        news = self._news.pop(item.name, Counter())
        if self._factors.get(item.name, 1.0) > 0.0:
            standing = self.traffic.get(item.name, {})
            news.update(standing, started=sum(standing.values()))
        opened = self._open[item.name]
        if item.name not in self.frozen and (opened or news):
            self._tokens[item.name] += 10
        age_s = sum(self.now_s - since_s for since_s in opened)
        answers, late_s = news["succeeded"], self.late_s.get(item.name)
        first_s = None if late_s is None else PROMPT_S + late_s
        return NodeObservation(
            item.id,
            prefill=PrefillSums(answers, answers * PROMPT_TOKENS, answers * first_s)
            if first_s is not None
            else NO_PREFILLS,
            in_flight=len(opened),
            open_age_s_sum=age_s,
            output_tokens=10 * news["succeeded"],
            **news,
        )

    def _sample(self, item: Node) -> NodeSample | None:
        name = item.name
        if name in self.without_agent:
            return None
        up = name not in self.engine_down | self.page_hangs
        found = sample(item, engine_up=up, kv_usage=self.kv_usage[name])
        tokens = ABSENT if name in self.without_counters else measured(self._tokens[name])
        running = self.engine_running.get(name, measured(len(self._open[name])))
        engine = replace(
            found.engine,
            running=running,
            waiting=self.engine_waiting.get(name, measured(0)),
            generation_tokens_total=tokens,
            prompt_tokens_total=ABSENT,
            steps_total=self.steps.get(name, ABSENT),
        )
        if name in self.still:
            engine = self._pages[name]
        self._pages[name] = engine
        if name in self.page_hangs:
            engine = EngineSample()
        gpus = (self.gpus[name],) if name in self.gpus else found.gpus
        hangs = name in self.page_hangs
        return replace(found, engine=engine, gpus=gpus, taken_s=TAKEN_S, engine_silent=hangs)

    def _age_s(self, found: NodeSample | None) -> float:
        if found is None:
            return math.inf
        return self.now_s - self.silent_since_s.get(found.node.name, self.now_s)


__all__ = ["LOST_AFTER_S", "TICK_S", "FleetClock", "NodeState", "Reason"]
