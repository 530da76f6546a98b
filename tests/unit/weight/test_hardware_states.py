"""What the health table does to whole lives of nodes, and how far it may go."""

from __future__ import annotations

import pytest

from isocost.config import StateSettings
from isocost.model import NodeState
from isocost.score.health_table import HOLD_S
from isocost.weight import fleet_states, lifecycle
from isocost.weight.lifecycle import Facts, Life
from tests.unit.hardware_samples import gpu, health, xids
from tests.unit.weight.fleet_clock import TICK_S, FleetClock, Reason

S = StateSettings()
WELL = {"succeeded": 4}
DEAD = {"resets": 4}
FATAL = gpu(xids(48))
PENDING = gpu(health(row_remap_pending=1))
W, SV, SU, D, E = (
    NodeState.WARMING,
    NodeState.SERVING,
    NodeState.SUSPECT,
    NodeState.DRAINING,
    NodeState.EJECTED,
)


def fleet(*names: str) -> FleetClock:
    """Nodes with twenty good requests a second each."""
    made = FleetClock(*(names or ("a", "b", "c", "d")))
    made.traffic = {item.name: dict(WELL) for item in made.nodes}
    made.tick()
    return made


def ill(clock: FleetClock) -> list[str]:
    """The nodes that are out for their hardware."""
    return [
        item.name
        for item in clock.nodes
        if clock.of(item.name) in ((E, Reason.HARDWARE), (D, Reason.HARDWARE))
    ]


def test_fatal_hardware_is_out_with_the_next_sample_and_comes_back_by_a_trial() -> None:
    clock = fleet()
    clock.gpus["b"] = FATAL
    clock.tick()
    assert clock.of("b") == (E, Reason.HARDWARE)
    assert clock.factor("b") == 0.0
    clock.run(1000.0)
    assert clock.of("b") == (E, Reason.HARDWARE)
    del clock.gpus["b"]
    clock.run(HOLD_S - TICK_S)
    assert clock.of("b") == (E, Reason.HARDWARE)
    clock.seconds_until("b", SV, 5.0 + S.slow_start_s)
    assert clock.path("b")[1:] == [
        (E, Reason.HARDWARE),
        (SU, Reason.TRIAL),
        (W, Reason.HEALED),
        (SV, Reason.OK),
    ]


def test_ill_hardware_is_not_looked_at_again_before_something_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = fleet()
    clock.gpus |= {"a": FATAL, "b": PENDING, "c": FATAL}
    clock.run(1.0)
    assert (clock.count(E), clock.count(SU)) == (2, 1)
    steps: list[Life] = []

    def counted(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
        steps.append(life)
        return lifecycle.step(life, facts, now_s, settings)

    monkeypatch.setattr(fleet_states, "step", counted)
    clock.run(2.0)
    assert not steps
    del clock.gpus["a"]
    clock.run(HOLD_S + TICK_S)
    assert steps


def test_hardware_that_still_fails_after_its_ejection_fails_its_trial() -> None:
    clock = fleet()
    clock.gpus["b"] = FATAL
    clock.tick()
    del clock.gpus["b"]
    clock.traffic["b"] = dict(DEAD)
    clock.run(HOLD_S + 2.0)
    assert clock.of("b") == (E, Reason.FAILURES)


def test_hardware_that_needs_a_reset_drains_its_node_until_it_had_it() -> None:
    clock = fleet()
    clock.start("b", 2)
    clock.gpus["b"] = PENDING
    clock.tick()
    assert clock.of("b") == (D, Reason.HARDWARE)
    assert (clock.factor("b"), clock.open_requests("b")) == (0.0, 2)
    clock.run(2 * S.drain_timeout_s)
    assert clock.of("b") == (D, Reason.HARDWARE)
    del clock.gpus["b"]
    clock.run(HOLD_S + TICK_S)
    assert clock.of("b") == (W, Reason.HEALED)


def test_an_operators_drain_is_shown_before_the_hardware_and_outlives_it() -> None:
    clock = fleet()
    clock.gpus["b"] = PENDING
    clock.drains["b"] = clock.now_s
    clock.tick()
    assert clock.of("b") == (D, Reason.DRAINING)
    clock.run(2.0)
    assert clock.of("b") == (D, Reason.DRAINED)
    del clock.drains["b"]
    clock.tick()
    assert clock.of("b") == (D, Reason.HARDWARE)
    clock.drains["b"] = clock.now_s
    del clock.gpus["b"]
    clock.run(HOLD_S + 2.0)
    assert clock.of("b") == (D, Reason.DRAINED)
    del clock.drains["b"]
    clock.tick()
    assert clock.of("b") == (W, Reason.UNDRAINED)


def test_what_only_lowers_changes_no_state() -> None:
    clock = fleet()
    clock.gpus["b"] = gpu(links=0.75)
    clock.tick()
    assert clock.of("b") == (SV, Reason.OK)
    assert clock.factor("b") == 1.0
    assert clock.state.hardware.factor.tolist() == [1.0, 0.75, 1.0, 1.0]


def test_a_fatal_xid_on_every_node_empties_no_fleet() -> None:
    clock = fleet()
    clock.gpus = dict.fromkeys("abcd", FATAL)
    clock.tick()
    assert ill(clock) == ["a", "b"]
    assert [clock.of(name) for name in "cd"] == [(SU, Reason.HARDWARE)] * 2
    assert [clock.factor(name) for name in "cd"] == [S.suspect_share] * 2
    clock.run(60.0)
    assert ill(clock) == ["a", "b"]


@pytest.mark.parametrize(("names", "most"), [("a", 0), ("ab", 1), ("abc", 1), ("abcdefg", 3)])
def test_at_most_half_are_out_for_their_hardware_and_never_the_last(names: str, most: int) -> None:
    clock = fleet(*names)
    clock.gpus = dict.fromkeys(names, FATAL)
    clock.run(1.0)
    assert len(ill(clock)) == most


def test_who_is_out_stays_out_and_the_worse_come_first() -> None:
    clock = fleet()
    clock.gpus["d"] = PENDING
    clock.tick()
    clock.gpus |= {"a": PENDING, "b": PENDING, "c": FATAL}
    clock.run(1.0)
    assert ill(clock) == ["c", "d"]
    del clock.gpus["d"]
    clock.run(HOLD_S + TICK_S)
    assert ill(clock) == ["a", "c"]
    assert clock.of("b") == (SU, Reason.HARDWARE)


def test_a_suspect_for_its_hardware_serves_at_once_when_it_is_well() -> None:
    clock = fleet("a")
    clock.gpus["a"] = FATAL
    clock.tick()
    assert clock.of("a") == (SU, Reason.HARDWARE)
    del clock.gpus["a"]
    clock.run(HOLD_S + TICK_S)
    assert clock.of("a") == (SV, Reason.OK)


def test_hardware_and_failures_have_limits_of_their_own() -> None:
    """Of six, three are out for their hardware; of the three that are left, one for failing."""
    clock = fleet(*"abcdef")
    clock.gpus = dict.fromkeys("abc", FATAL)
    clock.run(1.0)
    clock.traffic |= {"d": dict(DEAD), "e": dict(DEAD)}
    clock.run(3.0)
    assert ill(clock) == ["a", "b", "c"]
    assert clock.count(E) == 4
    assert clock.of("f") == (SV, Reason.OK)


def test_nobody_is_put_out_for_its_hardware_when_the_only_other_one_fails() -> None:
    clock = fleet("a", "b")
    clock.traffic["a"] = dict(DEAD)
    clock.run(2.0)
    assert clock.of("a") == (E, Reason.FAILURES)
    clock.gpus["b"] = FATAL
    clock.tick()
    assert clock.of("b") == (SU, Reason.HARDWARE)


def test_a_node_held_at_zero_by_hand_is_nobody_to_rely_on() -> None:
    clock = fleet("a", "b")
    clock.held.add("a")
    clock.gpus["b"] = FATAL
    clock.tick()
    assert clock.of("b") == (SU, Reason.HARDWARE)


def test_a_restarted_engine_on_ill_hardware_stays_out() -> None:
    clock = fleet()
    clock.gpus["b"] = FATAL
    clock.tick()
    clock.restart("b")
    clock.tick()
    assert clock.of("b") == (E, Reason.HARDWARE)
