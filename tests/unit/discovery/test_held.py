"""What a source says is lost: believed, doubted, and in the end gone."""

from __future__ import annotations

import logging
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.discovery.held import MOST, WINDOW_S, Held
from isocost.discovery.listing import Check, Listed, Listing, Source
from isocost.model import Node
from isocost.weight.told import Told
from tests.unit.fleet_builder import node


def listing(**checks: Check) -> Listing:
    return Listing(tuple(Listed(_node(name), check) for name, check in checks.items()))


def _node(name: str) -> Node:
    return node(name, address=f"192.0.2.{int(name[1:])}:80")


def passing(*numbers: int) -> dict[str, Check]:
    return {f"n{number}": Check.PASSING for number in numbers}


class Bench:
    """A source and what holds on to it."""

    def __init__(self, most: float = MOST) -> None:
        self.held = Held("consul", most)
        self.gone: set[str] = set()
        self.announced: set[str] = set()
        self.listing = Listing(())
        self.resets = 0

    def says(self, now_s: float, **checks: Check) -> None:
        self.listing = listing(**checks)
        self.tick(now_s)

    def tick(self, now_s: float) -> None:
        said = Source("consul", self.listing, now_s, resets=self.resets)
        self.held.take(said, lambda found: found.name in self.gone, self.announced, now_s)

    def there(self) -> set[str]:
        return {kept.node.name for kept in self.held.kept if kept.listed}

    def told(self, name: str) -> Told:
        return next(kept.told for kept in self.held.kept if kept.node.name == name)


def test_a_node_that_is_withdrawn_alone_leaves_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = Bench()
    source.says(0.0, **passing(1, 2, 3))
    source.says(1.0, **passing(1, 2))
    assert source.there() == {"n1", "n2"} and not source.held.doubted
    assert [record.message for record in caplog.records] == [
        "consul does not list them any more: n3"
    ]


def test_what_a_source_that_lost_its_data_does_not_list_stays_until_it_is_gone() -> None:
    source = Bench()
    source.says(0.0, **passing(1, 2, 3, 4))
    source.resets += 1
    source.gone = {"n3"}
    source.says(10.0, **passing(1, 2))
    assert source.there() == {"n1", "n2", "n4"}
    assert source.held.doubted == {"n4": Told.WITHDRAWN}
    source.tick(10.0 + WINDOW_S)
    assert source.there() == {"n1", "n2", "n4"}
    source.tick(10.1 + WINDOW_S)
    assert source.there() == {"n1", "n2"}


def test_a_reset_says_nothing_of_what_is_lost_later() -> None:
    source = Bench()
    source.says(0.0, **passing(1, 2, 3, 4))
    source.resets += 1
    source.tick(10.0)
    source.says(11.0, **passing(1, 2, 3))
    assert source.there() == {"n1", "n2", "n3"}


def test_an_empty_answer_and_one_with_less_than_half_are_not_believed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    source = Bench()
    source.says(0.0, **passing(1, 2, 3, 4))
    source.says(1.0)
    for now_s in (1.0, 2.0, 1000.0):
        source.tick(now_s)
        assert source.there() == {"n1", "n2", "n3", "n4"}
    assert source.held.doubted == dict.fromkeys(("n1", "n2", "n3", "n4"), Told.WITHDRAWN)
    source.says(1001.0, **passing(1, 2, 3, 4))
    assert not source.held.doubted
    source.says(1002.0, **passing(1))
    assert source.there() == {"n1", "n2", "n3", "n4"}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_what_is_doubted_goes_when_its_own_health_says_so() -> None:
    source = Bench()
    source.says(0.0, **passing(1, 2, 3))
    source.says(1.0)
    source.gone = {"n2"}
    source.tick(2.0)
    assert source.there() == {"n1", "n3"}
    source.gone = {"n1", "n2", "n3"}
    source.tick(3.0)
    assert source.there() == set() and not source.held.doubted


def test_small_steps_that_add_up_are_not_believed_beyond_the_bound() -> None:
    source = Bench()
    numbers = list(range(1, 11))
    source.says(0.0, **passing(*numbers))
    for step in range(1, 10):
        numbers.pop()
        source.says(10.0 * step, **passing(*numbers))
    assert len(source.there()) == 5
    assert len(source.held.doubted) == 4


@pytest.mark.parametrize("check", [Check.CRITICAL, Check.AGENT_LATE])
def test_failing_checks_are_bounded_as_withdrawals_are(check: Check) -> None:
    source = Bench()
    source.says(0.0, **passing(1, 2, 3))
    source.says(1.0, **passing(2, 3), n1=check)
    assert source.told("n1") == {Check.CRITICAL: Told.CRITICAL}.get(check, Told.LATE)
    source.says(2.0, **passing(3), n1=check, n2=check)
    assert source.told("n2") is Told.NOTHING and list(source.held.doubted) == ["n2"]
    source.gone = {"n2"}
    source.tick(3.0)
    assert source.told("n2") is source.told("n1")


def test_maintenance_is_an_order_and_a_warning_no_loss() -> None:
    source = Bench()
    source.says(0.0, **passing(1, 2))
    source.says(1.0, n1=Check.MAINTENANCE, n2=Check.MAINTENANCE)
    assert source.told("n1") is source.told("n2") is Told.MAINTENANCE
    source.says(2.0, n1=Check.WARNING, n2=Check.WARNING)
    assert source.told("n1") is Told.WARNING and not source.held.doubted


def test_who_was_in_maintenance_when_it_was_withdrawn_stays_out_while_its_agent_speaks() -> None:
    source = Bench()
    source.announced = {"n1"}
    source.says(0.0, **passing(2), n1=Check.MAINTENANCE)
    source.says(1.0, **passing(2))
    source.says(2000.0, **passing(2, 3))
    assert source.there() == {"n2", "n3"}
    assert source.told("n1") is Told.MAINTENANCE


def test_a_maintenance_that_nobody_lists_ends_when_no_agent_names_the_node() -> None:
    source = Bench()
    source.announced = {"n1"}
    source.says(0.0, **passing(2), n1=Check.MAINTENANCE)
    source.says(1.0, **passing(2))
    source.announced = set()
    source.tick(2.0)
    assert [kept.node.name for kept in source.held.kept] == ["n2"]


def test_a_withdrawn_node_is_remembered_as_long_as_its_agent_names_it() -> None:
    source = Bench()
    source.announced = {"n1"}
    source.says(0.0, **passing(1, 2, 3))
    source.says(1.0, **passing(2, 3))
    source.says(WINDOW_S + 2.0, **passing(2, 3, 4))
    assert source.told("n1") is Told.WITHDRAWN
    source.announced = set()
    source.says(WINDOW_S + 3.0, **passing(2, 3))
    assert "n1" not in {kept.node.name for kept in source.held.kept}


def test_nodes_that_come_back_one_by_one_do_not_let_the_others_go() -> None:
    source = Bench()
    source.says(0.0, **passing(*range(1, 11)))
    source.says(1.0)
    for count in range(1, 11):
        source.says(1.0 + count, **passing(*range(1, count + 1)))
        assert len(source.there()) == 10
    assert not source.held.doubted


def test_one_that_is_missing_long_after_the_others_are_back_is_believed_to_be() -> None:
    source = Bench()
    source.says(0.0, **passing(1, 2, 3))
    source.says(1.0)
    source.says(2.0, **passing(1, 2))
    source.tick(WINDOW_S)
    assert source.there() == {"n1", "n2", "n3"}
    source.tick(WINDOW_S + 2.0)
    assert source.there() == {"n1", "n2"}


def test_another_node_at_its_address_replaces_one_that_is_withdrawn() -> None:
    source = Bench()
    source.says(0.0, **passing(1))
    source.listing = Listing((Listed(node("new", address="192.0.2.1:80")),))
    source.tick(1.0)
    assert source.there() == {"new"} and not source.held.doubted


def test_a_node_that_is_bad_from_the_first_is_no_loss() -> None:
    source = Bench()
    source.says(0.0, n1=Check.CRITICAL, n2=Check.AGENT_LATE)
    assert source.told("n1") is Told.CRITICAL and not source.held.doubted


def test_an_answer_that_is_the_same_object_changes_nothing() -> None:
    source = Bench()
    source.says(0.0, **passing(1, 2))
    kept = source.held.kept
    source.tick(1.0)
    assert source.held.kept is kept


def test_a_source_that_said_it_twice_is_believed_whatever_it_lost() -> None:
    source = Bench(most=1.0)
    source.says(0.0, **passing(1, 2))
    source.says(1.0)
    assert source.there() == set()


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 40))
def test_no_more_than_the_bound_goes_unconfirmed_and_what_is_gone_goes(
    seed: int, count: int, steps: int
) -> None:
    """Whatever sequence of lists a source gives."""
    rng = random.Random(seed)
    source = Bench()
    everyone = list(range(1, count + 1))
    source.says(0.0, **passing(*everyone))
    now_s = 0.0
    #: When each went that its own health did not confirm.
    went_s: dict[str, float] = {}
    for _ in range(steps):
        now_s += rng.choice((1.0, 10.0, WINDOW_S / 2))
        listed = rng.sample(everyone, rng.randint(0, count))
        source.gone = {f"n{number}" for number in everyone if rng.random() < 0.1}
        before = source.there()
        source.says(now_s, **passing(*listed))
        assert {f"n{number}" for number in listed} <= source.there()
        went_s = {name: at_s for name, at_s in went_s.items() if name not in source.there()}
        left = before - source.there()
        went_s |= dict.fromkeys(left - source.gone, now_s)
        lately = [name for name, at_s in went_s.items() if now_s - at_s <= WINDOW_S]
        if left - source.gone:
            there = len(source.there() | (left & source.gone))
            assert len(lately) <= MOST * (there + len(lately))
    stay = set(everyone[: count // 3])
    source.says(now_s + 1.0, **passing(*stay))
    source.gone = {f"n{number}" for number in everyone if number not in stay}
    source.tick(now_s + 2.0)
    assert source.there() == {f"n{number}" for number in stay}
    source.says(now_s + 3.0, **passing(*stay))
    assert not source.held.doubted
