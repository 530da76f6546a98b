"""An entropy that a node's open requests do not explain is not believed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.config import EntropySettings, StateSettings
from isocost.model import ABSENT, NodeSample, Signal, SignalState, measured
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver
from isocost.score.constants import roster_constants
from isocost.weight.anomaly import AnomalyWatch, leave_one_out, too_good
from isocost.weight.guards import Guards
from tests.unit.fleet_builder import KV_BYTES_PER_TOKEN, node, sample, telemetry_of

SETTINGS = StateSettings()
TICK_S = 0.2
POOL_TOKENS = 60e9 / KV_BYTES_PER_TOKEN


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
def test_leaving_one_out_is_what_it_says(values: list[float]) -> None:
    middle, deviation = leave_one_out(np.array(values))
    for index in range(len(values)):
        others = np.array(values[:index] + values[index + 1 :])
        assert middle[index] == pytest.approx(np.median(others))
        assert deviation[index] == pytest.approx(np.median(np.abs(others - np.median(others))))


def of(whole: list[float], explained: list[float]) -> list[int]:
    return np.flatnonzero(too_good(np.array(whole), np.array(explained))).tolist()


def test_half_of_what_is_explained_where_the_others_agree_is_too_good() -> None:
    assert of([10, 10, 10, 10, 10, 4.9], [10] * 6) == [5]


def test_a_low_entropy_that_few_requests_explain_is_true() -> None:
    assert of([10, 10, 10, 10, 10, 1], [10, 10, 10, 10, 10, 1]) == []


def test_an_entropy_like_the_others_with_twice_the_work_is_too_good() -> None:
    """The herd's: it looks like the others because it has so much more to do."""
    assert of([10] * 6, [10, 10, 10, 10, 10, 25]) == [5]


def test_two_of_eight_that_lie_do_not_hide_each_other() -> None:
    assert of([10] * 6 + [2, 3], [10] * 8) == [6, 7]


def test_where_the_others_scatter_as_much_it_is_chance() -> None:
    assert of([3, 30, 10, 2, 25, 4], [10] * 6) == []


@pytest.mark.parametrize(("log_ratio", "found"), [(-1.1, []), (-1.3, [6])])
def test_two_standard_deviations_of_the_others_are_needed(
    log_ratio: float, found: list[int]
) -> None:
    """Theirs is 1.4826 * 0.4, so that two are 1.19."""
    log_ratios = [0.4, -0.4, 0.4, -0.4, 0.4, -0.4, log_ratio]
    assert of([10 * math.exp(of_one) for of_one in log_ratios], [10] * 7) == found


def test_less_than_half_is_needed_however_well_the_others_agree() -> None:
    assert of([10, 10, 10, 10, 10, 5.1], [10] * 6) == []


def test_nodes_with_work_of_others_do_not_make_liars_of_those_without() -> None:
    assert of([30, 30, 30, 30, 30, 10], [10] * 6) == []


def test_shared_prefixes_everywhere_are_no_anomaly_and_hide_none() -> None:
    assert of([3, 3, 3, 3, 3, 3], [10] * 6) == []
    assert of([3, 3, 3, 3, 3, 0.5], [10] * 6) == [5]


def test_too_good_is_nobody_among_three_or_of_whom_nothing_is_known() -> None:
    assert of([10, 10, 0.0], [10] * 3) == []
    assert of([10, 10, 10, 0.0], [10] * 4) == [3]
    assert of([10, 10, 10, 0.0], [10, 10, 10, 0.0]) == []
    assert of([10, 10, 10, 0.0, 0.0], [10, 10, 10, np.nan, np.nan]) == []


def test_an_entropy_of_zero_under_load_is_too_good() -> None:
    assert of([10, 10, 10, 10, 0.0], [10] * 5) == [4]


def flags(watch: AnomalyWatch, whole: list[float], now_s: float) -> list[int]:
    found = watch.update(np.array(whole), np.full(len(whole), 10.0), now_s)
    return np.flatnonzero(found).tolist()


WELL, ODD = [10.0] * 6, [10.0] * 5 + [1.0]


def watch(count: int = 6) -> AnomalyWatch:
    result = AnomalyWatch(SETTINGS)
    result.rearrange(np.full(count, -1))
    return result


def test_three_ticks_in_a_row_make_it_and_two_do_not() -> None:
    one = watch()
    told = [ODD, ODD, WELL, ODD, ODD, ODD]
    assert [flags(one, whole, tick * TICK_S) for tick, whole in enumerate(told)] == [
        *[[]] * 5,
        [5],
    ]


def test_it_lasts_until_a_clean_period_is_over() -> None:
    one = watch()
    for tick in range(3):
        flags(one, ODD, tick * TICK_S)
    last_s = 2 * TICK_S
    assert flags(one, WELL, last_s + SETTINGS.clean_s - 0.01) == [5]
    assert flags(one, WELL, last_s + SETTINGS.clean_s) == []


@pytest.mark.parametrize(("odd", "found"), [(4, [0, 1, 2, 3]), (6, [])])
def test_the_majority_is_never_demoted(odd: int, found: list[int]) -> None:
    """By turns, so that no tick shows most of them. Half of them may be."""
    one = watch(8)
    for start in range(0, odd, 2):
        for tick in range(3):
            whole = [10.0] * 8
            whole[start] = whole[start + 1] = 1.0
            doubted = flags(one, whole, start + tick * TICK_S)
    assert doubted == found


def test_another_instance_begins_anew() -> None:
    one = watch()
    for tick in range(3):
        flags(one, ODD, tick * TICK_S)
    one.rearrange(np.array([0, 1, 2, 3, 4, -1]))
    assert flags(one, WELL, 1.0) == []


def test_a_new_roster_keeps_what_is_known_of_those_that_stay() -> None:
    one = watch()
    for tick in range(3):
        flags(one, ODD, tick * TICK_S)
    one.rearrange(np.array([5, 0, 1, 2, 3]))
    assert flags(one, WELL[:5], 1.0) == [0]


NODES = tuple(node(f"n{number}") for number in range(8))


def anomalous(
    last: NodeSample,
    tokens: int = 40_000,
    pending: int = 0,
    open_now: int = 8,
    age_s: float = 2.0,
    silent: bool = False,
) -> list[str]:
    """The nodes that are doubted after three ticks in which all have 8 requests of 5,000 tokens
    open, by the gateways; ``last`` is what the last one tells, and what it has open. ``silent``: a
    gateway that had requests there is.
    """
    guards, observer = Guards(SETTINGS, EntropySettings()), FleetObserver(10.0, 5.0)
    if silent:
        observer.apply(Batch("away", 1, 1, (NodeObservation(NODES[-1].id, in_flight=1),)), -9.0)
    for tick in range(4):
        now_s = tick * TICK_S
        seen = [
            NodeObservation(item.id, in_flight=8, open_age_s_sum=8 * age_s, kv_tokens=40_000)
            for item in NODES[:-1]
        ]
        odd = replace(
            seen[0],
            node_id=NODES[-1].id,
            in_flight=open_now,
            kv_tokens=tokens,
            pending_tokens=pending,
        )
        observer.apply(Batch("edge", 1, tick + 1, (*seen, odd)), now_s)
        samples = [
            *(sample(item, kv_usage=40_000 / POOL_TOKENS, running=8.0) for item in NODES[:-1]),
            last,
        ]
        scored = guards.tick(
            NODES,
            telemetry_of(NODES, samples),
            np.zeros(8),
            observer.view([item.id for item in NODES], now_s),
            roster_constants(NODES, EntropySettings()),
            np.zeros(8, dtype=np.intp),
            now_s,
        )
    return [NODES[index].name for index in scored.guarded.doubts]


def told(
    kv_tokens: float | Signal, running: float | Signal = 8.0, waiting: float = 0.0
) -> NodeSample:
    usage = kv_tokens if isinstance(kv_tokens, Signal) else measured(kv_tokens / POOL_TOKENS)
    return sample(NODES[-1], kv_usage=usage, running=running, waiting=waiting)


def test_a_page_that_shows_a_fraction_of_the_work_is_not_believed() -> None:
    assert anomalous(told(0, running=0.0)) == ["n7"]
    assert anomalous(told(10_000, running=2.0)) == ["n7"]
    assert anomalous(told(40_000)) == []


def test_prompts_that_begin_alike_share_their_memory() -> None:
    """It owns up to its requests, so it is believed what they take. Half of them are enough, since
    the page and the reports are not of one moment.
    """
    assert anomalous(told(8_000)) == []
    assert anomalous(told(8_000, running=4.0)) == []
    assert anomalous(told(8_000, running=1.0, waiting=3.0)) == []
    assert anomalous(told(8_000, running=3.0)) == ["n7"]


def test_prompts_that_are_not_read_yet_take_no_memory() -> None:
    assert anomalous(told(2_000, running=0.0), pending=38_000) == []


def test_no_more_is_explained_than_the_memory_holds() -> None:
    assert anomalous(told(POOL_TOKENS), tokens=round(POOL_TOKENS * 10), open_now=80) == []


def test_of_a_few_requests_nothing_is_concluded() -> None:
    assert anomalous(told(0, running=0.0), open_now=2) == []
    assert anomalous(told(0, running=0.0), open_now=3) == ["n7"]


def test_ages_are_a_part_of_what_is_explained() -> None:
    """The entropy is the ages' alone, 1.3; with the memory it should be 2.9."""
    assert anomalous(told(0, running=0.0), age_s=21.0) == ["n7"]
    assert anomalous(told(0, running=0.0), age_s=42.0) == []


def test_while_a_gateway_is_away_nothing_is_concluded_of_what_it_had_there() -> None:
    assert anomalous(told(0, running=0.0), silent=True) == []


def test_a_node_that_tells_nothing_is_no_liar() -> None:
    assert anomalous(told(ABSENT, running=ABSENT)) == []


def test_an_old_page_is_no_lie() -> None:
    assert anomalous(told(Signal(SignalState.STALE, 0.0, 2.0), running=0.0)) == []
