"""Whatever agents, gateways and operators do: the cap holds, a drained node gets nothing, and every
node finds its way back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from isocost.config import StateSettings, WeightSettings
from isocost.model import (
    EngineSample,
    GpuSample,
    Model,
    Node,
    NodeSample,
    NodeState,
    Signal,
    SignalState,
)
from isocost.score.health_table import HOLD_S, Action
from isocost.weight.decide import Decision, decide
from isocost.weight.entropy import LARGEST_ENTROPY
from isocost.weight.override import Override
from isocost.weight.standing import Reason, Standing
from isocost.weight.weight import SMALLEST_WEIGHT
from tests.unit import hardware_samples
from tests.unit.fleet_builder import node, telemetry_of, terms_of
from tests.unit.weight.fleet_clock import FleetClock

#: Times a tenth of the defaults, so that an example sees many ejections; the shape is the same.
S = StateSettings(
    slow_start_s=2.0,
    clean_s=2.0,
    eject_base_s=1.0,
    eject_max_s=8.0,
    eject_forget_s=16.0,
    trial_quiet_s=4.0,
    drain_timeout_s=5.0,
)
NAMES = tuple("abcdefg")
MODELS = {"a": "mmm", "b": "mmm", "c": "mmm", "d": "mn", "e": "n", "f": "n", "g": ""}
WELL = {"succeeded": 2}
#: Longer than any ejection, its hang's extra time, trial and ramp together.
RECOVERY_S = (
    HOLD_S + 2 * S.eject_max_s + S.trial_quiet_s + S.clean_s + S.slow_start_s + S.window_s + 5.0
)

names = st.sampled_from(NAMES)
outcomes = st.dictionaries(
    st.sampled_from(
        ["succeeded", "client_errors", "rate_limited", "server_errors", "resets", "client_aborts"]
    ),
    st.integers(0, 8),
    max_size=3,
)


def member(name: str) -> Node:
    return replace(node(name), models=tuple(Model(model) for model in sorted(set(MODELS[name]))))


#: Up to what memory in bytes can be, and what no reading should be.
values = st.floats(0.0, 1e12) | st.floats(0.0, 2.0) | st.sampled_from([math.nan, math.inf, -1.0])
ages_s = st.sampled_from([0.0, 0.9, 1.1, 10.0, math.inf])
signals = st.builds(Signal, st.sampled_from(SignalState), values, ages_s)
gpus = st.builds(GpuSample, st.just("GPU"), signals, signals, signals, signals, signals)
engines = st.builds(EngineSample, signals, signals, signals, signals, signals, signals)


def sample_of(name: str) -> st.SearchStrategy[NodeSample]:
    some_gpus = st.lists(gpus, max_size=2).map(tuple)
    return st.builds(
        NodeSample,
        st.just(member(name)),
        st.booleans(),
        some_gpus,
        engines,
        net_bytes_per_s=signals,
    )


#: Well, lowered, to drain, to eject.
HARDWARE = (
    hardware_samples.gpu(),
    hardware_samples.gpu(links=0.5),
    hardware_samples.gpu(hardware_samples.health(row_remap_pending=1)),
    hardware_samples.gpu(hardware_samples.xids(48)),
)
EJECTED_BY_HARDWARE = Standing(NodeState.EJECTED, Reason.HARDWARE)
DRAINED_BY_HARDWARE = Standing(NodeState.DRAINING, Reason.HARDWARE)
NEVER = (Override(weight=0.0), Override(entropy=math.inf))
NOTHING_TOLD = (None, math.inf)
overrides = st.one_of(
    st.sampled_from(NEVER),
    st.builds(Override, weight=st.floats(SMALLEST_WEIGHT, 1.0)),
    st.builds(Override, entropy=st.floats(0.0, LARGEST_ENTROPY)),
)


class States(RuleBasedStateMachine):
    """``samples`` is telemetry by node name, each with its age in seconds; ``overrides`` what
    operators set.
    """

    @initialize()
    def begin(self) -> None:
        self.samples: dict[str, tuple[NodeSample, float]] = {}
        self.overrides: dict[str, Override] = {}
        self.clock = FleetClock(settings=S)
        self.clock.nodes = [member(name) for name in NAMES]
        self.clock.traffic = {name: dict(WELL) for name in NAMES}
        self.clock.tick()

    def there(self, name: str) -> bool:
        return any(item.name == name for item in self.clock.nodes)

    @rule(name=names, traffic=outcomes)
    def answers(self, name: str, traffic: dict[str, int]) -> None:
        self.clock.traffic[name] = traffic

    @rule(seconds=st.sampled_from([0.2, 1.0, 3.0, 6.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.2)):
            self.clock.tick()
            self.check()

    @rule(name=names)
    def engine_falls_or_rises(self, name: str) -> None:
        self.clock.engine_down ^= {name}

    @rule(some=st.sets(names))
    def agents_fall_silent(self, some: set[str]) -> None:
        for name in some:
            self.clock.silent_since_s.setdefault(name, self.clock.now_s)

    @rule()
    def agents_speak(self) -> None:
        self.clock.silent_since_s.clear()

    @rule(name=names, count=st.integers(1, 6))
    def hangs(self, name: str, count: int) -> None:
        self.clock.frozen.add(name)
        self.clock.traffic[name] = {}
        self.clock.start(name, count)

    @rule(name=names)
    def hang_ends(self, name: str) -> None:
        self.clock.frozen.discard(name)
        self.clock.end(name, succeeded=self.clock.open_requests(name))

    @rule(name=names, gpu=st.sampled_from(HARDWARE))
    def hardware_falls_ill_or_heals(self, name: str, gpu: GpuSample) -> None:
        self.clock.gpus[name] = gpu

    @rule(gpu=st.sampled_from(HARDWARE))
    def all_hardware_says_the_same(self, gpu: GpuSample) -> None:
        self.clock.gpus = dict.fromkeys(NAMES, gpu)

    @rule(name=names)
    def restarts(self, name: str) -> None:
        if self.there(name):
            self.clock.restart(name)
            self.clock.tick()

    @rule(name=names)
    def leaves_or_joins(self, name: str) -> None:
        if self.there(name):
            del self.clock.nodes[self.clock.index(name)]
        else:
            self.clock.nodes = sorted([*self.clock.nodes, member(name)], key=lambda n: n.name)
        self.clock.tick()

    @rule(name=names)
    def operator_drains_or_undrains(self, name: str) -> None:
        if self.clock.drains.pop(name, None) is None:
            self.clock.drains[name] = self.clock.now_s

    @rule(name=names, override=st.none() | overrides)
    def operator_sets_a_number_or_lets_go(self, name: str, override: Override | None) -> None:
        self.overrides.pop(name, None)
        self.clock.held.discard(name)
        if override is not None:
            self.overrides[name] = override
        if override in NEVER:
            self.clock.held.add(name)

    @rule(sample=names.flatmap(sample_of), age_s=ages_s)
    def telemetry_comes(self, sample: NodeSample, age_s: float) -> None:
        self.samples[sample.node.name] = (sample, age_s)

    @rule(name=names)
    def telemetry_is_lost(self, name: str) -> None:
        self.samples.pop(name, None)

    def drained(self) -> list[bool]:
        """By node: had an order to drain come when it was last judged?"""
        clock = self.clock
        return [clock.drains.get(item.name, math.inf) < clock.now_s for item in clock.nodes]

    @invariant()
    def check(self) -> None:
        """After the last tick."""
        standings = self.clock.state.standings
        for model in {model for text in MODELS.values() for model in text} | {""}:
            # The cap is for judgement by the gateways alone: not where the agent is silent too.
            of_model = [
                standing
                for item, standing in zip(self.clock.nodes, standings, strict=True)
                if model in ({m.name for m in item.models} or {""})
                and not self.clock.agent_is_silent(item.name)
            ]
            facts = (NodeState.LOST, NodeState.DRAINING)
            judged = sum(
                standing.state not in facts and standing != EJECTED_BY_HARDWARE
                for standing in of_model
            )
            out = sum(
                (standing.state is NodeState.EJECTED and standing != EJECTED_BY_HARDWARE)
                or standing.reason is Reason.TRIAL
                for standing in of_model
            )
            assert out <= math.floor(judged * S.max_out_fraction), (model, of_model)
        self.check_hardware()
        assert not self.clock.state.factor[self.drained()].any(), standings
        for index, standing in enumerate(standings):
            factor = self.clock.state.factor[index]
            assert 0.0 <= factor <= 1.0
            if not standing.state.eligible:
                assert factor == 0.0
            elif standing.reason is not Reason.TRIAL:
                assert factor > 0.0

    def check_hardware(self) -> None:
        """The limit holds whatever agents say, and what is ill beyond it does not just serve."""
        clock, standings = self.clock, self.clock.state.standings
        for model in {model for text in MODELS.values() for model in text} | {""}:
            of_model = [
                (item.name, standing)
                for item, standing in zip(clock.nodes, standings, strict=True)
                if model in ({m.name for m in item.models} or {""})
            ]
            present = [
                (name, standing)
                for name, standing in of_model
                if standing.state is not NodeState.LOST
                and (standing.state is not NodeState.DRAINING or standing == DRAINED_BY_HARDWARE)
            ]
            out = sum(
                standing in (EJECTED_BY_HARDWARE, DRAINED_BY_HARDWARE) for _, standing in present
            )
            assert out <= math.floor(len(present) * S.max_out_fraction), (model, present)
            assert out < len(present) or not present
        ill = clock.state.hardware.action >= Action.DRAIN
        assert not any(standings[index].state is NodeState.SERVING for index in np.flatnonzero(ill))

    def decide(
        self, told: Sequence[tuple[NodeSample | None, float]], by_hand: dict[str, Override]
    ) -> Decision:
        clock = self.clock
        telemetry = telemetry_of(clock.nodes, *zip(*told, strict=True))
        terms = terms_of(clock.nodes, telemetry, clock.observed)
        return decide(
            clock.nodes, telemetry, terms, clock.observed, clock.state, by_hand, WeightSettings()
        )

    @invariant()
    def weights_without_telemetry_follow_the_states(self) -> None:
        factor = self.clock.state.factor
        decision = self.decide([NOTHING_TOLD] * len(factor), {})
        assert ((decision.weight >= 0.0) & (decision.weight <= 1.0)).all()
        assert ((decision.weight > 0.0) == (factor > 0.0)).all()
        assert (decision.entropy >= 0.0).all()
        assert (factor > 0.0).any() == (decision.weight == 1.0).any()

    @invariant()
    def weights_are_weights_whatever_is_told_and_set(self) -> None:
        clock = self.clock
        told = [self.samples.get(item.name, NOTHING_TOLD) for item in clock.nodes]
        decision = self.decide(told, self.overrides)
        weight, entropy = decision.weight, decision.entropy
        assert ((weight >= 0.0) & (weight <= 1.0)).all(), weight
        assert (entropy >= 0.0).all(), entropy
        nothing = clock.state.factor == 0.0
        assert not weight[nothing].any(), weight
        assert np.isinf(entropy[nothing]).all(), entropy
        drained = self.drained()
        assert not weight[drained].any(), weight
        assert np.isinf(entropy[drained]).all(), entropy
        for index, item in enumerate(clock.nodes):
            override = self.overrides.get(item.name)
            if override in NEVER:
                assert weight[index] == 0.0 or math.isinf(entropy[index])
            elif override is not None and override.weight is not None:
                assert (weight[index] > 0.0) == (not nothing[index])

    def teardown(self) -> None:
        """All become well, operators let go: every node serves its whole share again."""
        clock = self.clock
        clock.engine_down.clear()
        clock.silent_since_s.clear()
        clock.frozen.clear()
        clock.drains.clear()
        clock.held.clear()
        clock.gpus.clear()
        self.overrides.clear()
        for name in NAMES:
            clock.traffic[name] = dict(WELL)
            clock.end(name, succeeded=clock.open_requests(name))
        for _ in range(round(RECOVERY_S / 0.2)):
            clock.tick()
            self.check()
        assert clock.count(NodeState.SERVING) == len(clock.nodes), clock.state.standings
        assert clock.state.factor.tolist() == [1.0] * len(clock.nodes)
        assert clock.state.hardware.factor.tolist() == [1.0] * len(clock.nodes)


States.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    # Making a failing example smaller takes minutes; its steps are printed as they are.
    phases=(Phase.explicit, Phase.generate),
)
TestStates = States.TestCase
