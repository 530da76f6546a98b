"""What a guard doubts of a node is believed where the node does its full work."""

from __future__ import annotations

import pytest

from isocost.config import StateSettings
from isocost.model import NodeState
from isocost.weight.fleet_states import FleetState, FleetStates, Orders
from isocost.weight.guarded import Guarded
from isocost.weight.lifecycle import DOUBTS
from isocost.weight.standing import Reason, Standing
from tests.unit.fleet_builder import node, observed_nothing, sample, telemetry_of
from tests.unit.sample_blocks import fleet_samples

NODES = (node("a"), node("b"), node("c"))
GUARDS = [reason for reason in DOUBTS if reason in (Reason.ANOMALY, Reason.JITTER)]


def after(guarded: Guarded, new: bool) -> FleetState:
    """The second tick of a fleet whose nodes serve, or warm because they are ``new``."""
    states, samples = FleetStates(StateSettings(), 3.0), [sample(item) for item in NODES]
    for now_s in (0.0, 0.2):
        state = states.tick(
            NODES,
            fleet_samples(samples),
            [0.0] * 3,
            telemetry_of(NODES, samples),
            observed_nothing(3),
            Orders({}, frozenset()),
            now_s,
            adopting=not new,
            guarded=guarded,
        )
    return state


@pytest.mark.parametrize("reason", GUARDS)
def test_a_node_that_serves_is_a_suspect(reason: Reason) -> None:
    state = after(Guarded({1: reason}), new=False)
    assert state.standings[1] == Standing(NodeState.SUSPECT, reason)
    assert 0.0 < state.factor[1] < 1.0 == state.factor[0]


@pytest.mark.parametrize("reason", GUARDS)
def test_a_node_that_warms_stays_at_its_ramp(reason: Reason) -> None:
    """Half of its share could be more."""
    state = after(Guarded({1: reason}), new=True)
    assert state.standings[1] == Standing(NodeState.WARMING, Reason.NEW)
    assert state.factor[1] == state.factor[0]


def test_who_is_stuck_is_tried_also_while_it_warms() -> None:
    for new in (False, True):
        state = after(Guarded({}, idle_stuck=(1,)), new)
        assert state.standings[1] == Standing(NodeState.SUSPECT, Reason.IDLE_STUCK)
        assert 0.0 < state.factor[1] <= StateSettings().trial_share
