"""The observer counts every batch once and forgets the nodes that left."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver, with_parts


def observer() -> FleetObserver:
    return FleetObserver(latency_window_s=10.0, evidence_window_s=5.0)


def batch(sequence: int, *nodes: NodeObservation, **decisions: int) -> Batch:
    return Batch("edge-1", incarnation=1, sequence=sequence, nodes=nodes, **decisions)


def test_a_batch_that_arrives_twice_counts_once() -> None:
    seen = observer()
    once = batch(0, NodeObservation(7, started=4, server_errors=2), picked=4, fallback_no_table=1)
    seen.apply(once, 0.0)
    seen.apply(once, 0.0)
    assert seen.outcomes(7)["started"] == 4
    assert seen.outcomes(7)["server_errors"] == 2
    assert seen.decisions.picked == 4
    assert seen.decisions.fallback_no_table == 1
    assert seen.view([7], 0.0).recent.failed.tolist() == [2.0]


def test_the_view_follows_the_order_of_the_ids() -> None:
    seen = observer()
    seen.apply(
        batch(
            0,
            NodeObservation(7, in_flight=2, tpot_count=2, tpot_ms_sum=30.0),
            NodeObservation(8, in_flight=1, first_byte_count=1, first_byte_ms_sum=90.0),
        ),
        0.0,
    )
    view = seen.view([8, 7, 9], 0.0)
    assert view.in_flight.tolist() == [1, 2, 0]
    assert view.tpot.mean_ms[1] == 15.0
    assert view.first_byte.mean_ms[0] == 90.0


def test_a_mean_weighs_every_request_and_is_kept_with_its_age() -> None:
    seen = observer()
    seen.apply(batch(0, NodeObservation(7, tpot_count=3, tpot_ms_sum=30.0)), 100.0)
    seen.apply(batch(1, NodeObservation(7, tpot_count=1, tpot_ms_sum=50.0)), 105.0)
    for now_s, mean_ms, age_s in ((105.0, 20.0, 0.0), (112.0, 50.0, 0.0), (130.0, 50.0, 18.0)):
        tpot = seen.view([7], now_s).tpot
        assert tpot.mean_ms.tolist() == pytest.approx([mean_ms])
        assert tpot.age_s.tolist() == [age_s]


def test_a_latency_never_observed_is_no_number_and_follows_its_node() -> None:
    seen = observer()
    seen.apply(batch(0, NodeObservation(7, tpot_count=1, tpot_ms_sum=50.0)), 100.0)
    seen.view([7, 8], 100.0)
    seen.keep([9, 8, 7])
    tpot = seen.view([9, 8, 7], 130.0).tpot
    assert np.isnan(tpot.mean_ms).tolist() == [True, True, False]
    assert tpot.age_s.tolist() == [math.inf, math.inf, 30.0]
    assert np.isnan(seen.view([7], 130.0).first_byte.mean_ms).all()


def test_what_is_good_what_is_failed_and_what_is_neither() -> None:
    seen = observer()
    seen.apply(
        batch(
            0,
            NodeObservation(
                7,
                started=100,
                succeeded=1,
                client_errors=2,
                rate_limited=4,
                server_errors=8,
                resets=16,
                client_aborts=32,
                failed_attempts=64,
                unknown_attempts=128,
            ),
        ),
        0.0,
    )
    view = seen.view([7], 0.0)
    for tally in (view.recent, view.total):
        assert tally.started.tolist() == [100.0]
        assert tally.good.tolist() == [3.0]
        assert tally.failed.tolist() == [88.0]
        assert tally.rate_limited.tolist() == [4.0]
    assert view.ended.tolist() == [15.0]


def test_recent_is_the_window_and_total_is_all() -> None:
    seen = observer()
    seen.apply(batch(0, NodeObservation(7, resets=3)), 0.0)
    view = seen.view([7], 6.0)
    assert view.recent.failed.tolist() == [0.0]
    assert view.total.failed.tolist() == [3.0]


def test_failures_in_a_row_end_with_a_good_answer() -> None:
    seen = observer()
    for sequence, counts in enumerate(
        ({"resets": 2}, {"failed_attempts": 1}, {"rate_limited": 5}, {"client_aborts": 5})
    ):
        seen.apply(batch(sequence, NodeObservation(7, **counts)), float(sequence))
    view = seen.view([7], 3.0)
    assert view.failed_in_a_row.tolist() == [3]
    assert view.last_failed_s.tolist() == [1.0]
    seen.apply(batch(9, NodeObservation(7, resets=4, client_errors=1)), 4.0)
    assert seen.view([7], 4.0).failed_in_a_row.tolist() == [0]


def test_nodes_that_left_the_roster_are_forgotten_and_the_others_are_not() -> None:
    seen = observer()
    seen.apply(batch(0, NodeObservation(7, started=1), NodeObservation(8, started=2)), 0.0)
    seen.keep([8, 9])
    assert seen.outcomes(7)["started"] == 0
    assert seen.outcomes(8)["started"] == 2
    seen.apply(batch(1, NodeObservation(9, started=4), NodeObservation(7, started=8)), 0.0)
    assert [seen.outcomes(node_id)["started"] for node_id in (7, 8, 9)] == [8, 2, 4]
    assert seen.view([9, 8, 7], 0.0).total.started.tolist() == [4.0, 2.0, 8.0]


def test_ten_thousand_restarts_leave_no_more_than_the_last() -> None:
    seen = observer()
    for node_id in range(10_000):
        seen.apply(batch(node_id, NodeObservation(node_id, started=1)), 0.0)
        seen.keep([node_id])
    assert len(seen._rows) == 1
    assert seen._total.nbytes < 10_000


def test_what_parts_of_a_node_answer_counts_for_the_node_too() -> None:
    seen = observer()
    seen.keep([5, 7], {71: 7, 72: 7})
    seen.apply(
        batch(
            0,
            NodeObservation(5, in_flight=1, started=1, output_tokens=7),
            NodeObservation(
                71, in_flight=2, started=3, succeeded=1, tpot_count=1, tpot_ms_sum=10.0
            ),
            NodeObservation(
                72, in_flight=4, started=4, server_errors=1, tpot_count=3, tpot_ms_sum=90.0
            ),
        ),
        0.0,
    )
    parts = seen.view([5, 71, 72], 0.0)
    assert parts.in_flight.tolist() == [1, 2, 4]
    assert parts.tpot.mean_ms[1:].tolist() == [10.0, 30.0]
    of_nodes, all_of_it = seen.view([5, 7], 0.0), np.array([True, False, False])
    whole = with_parts(of_nodes, parts, np.array([0, 1, 1]), all_of_it)
    assert whole.in_flight.tolist() == [1, 6]
    assert whole.tpot.mean_ms[1] == 25.0
    assert whole.total.started.tolist() == [1.0, 7.0]
    # An answer of one part: the node works.
    assert whole.failed_in_a_row.tolist() == [0, 0]
    assert parts.failed_in_a_row.tolist() == [0, 0, 1]
    assert seen.outcomes(7)["started"] == 7
    # The fleet's counts have each request once.
    assert seen.output_tokens == 7


def test_what_is_open_on_a_node_since_it_was_one_part_counts_on() -> None:
    seen = observer()
    old = NodeObservation(7, in_flight=3, open_age_s_sum=6.0, pending_tokens=50, kv_tokens=90)
    seen.apply(batch(0, old), 0.0)
    seen.keep([7], {71: 7, 72: 7})
    new = NodeObservation(72, in_flight=1, open_age_s_sum=1.0, pending_tokens=5, kv_tokens=9)
    seen.apply(batch(1, old, new), 0.0)
    parts = seen.view([71, 72], 0.0)
    whole = with_parts(seen.view([7], 0.0), parts, np.array([0, 0]), np.zeros(2, dtype=np.bool_))
    assert parts.in_flight.tolist() == [0, 1]
    assert whole.in_flight.tolist() == [4]
    assert whole.open_age_s_sum.tolist() == [7.0]
    assert (whole.pending_tokens.tolist(), whole.kv_tokens.tolist()) == ([55], [99])


def test_what_is_open_on_a_part_that_a_node_has_no_more_is_open_on_the_node_until_it_ends() -> None:
    seen = observer()
    seen.keep([5, 7], {71: 7, 72: 7})
    small = NodeObservation(71, in_flight=2, open_age_s_sum=4.0, pending_tokens=3, kv_tokens=8)
    large = NodeObservation(72, in_flight=1, open_age_s_sum=1.0, pending_tokens=5, kv_tokens=9)
    seen.apply(batch(0, small, large, NodeObservation(5, in_flight=1)), 0.0)
    # Of two models one is left: the node is its own row again.
    for _ in range(2):
        seen.keep([5, 7])
        view = seen.view([5, 7], 2.0)
        assert view.in_flight.tolist() == [1, 3]
        assert view.open_age_s_sum[1] == 11.0
        assert (view.pending_tokens.tolist(), view.kv_tokens.tolist()) == ([0, 8], [0, 17])
    seen.apply(Batch("edge-2", 1, 0, ()), 9.0)
    assert seen.view([5, 7], 9.0).in_flight_known.tolist() == [False, False]
    # Their answers count for the node, and none is left.
    ended = NodeObservation(72, succeeded=1, output_tokens=4)
    seen.apply(batch(1, NodeObservation(71, in_flight=1, open_age_s_sum=9.0), ended), 9.0)
    view = seen.view([5, 7], 9.0)
    assert (view.in_flight.tolist(), view.total.good.tolist()) == ([0, 1], [0.0, 1.0])
    seen.apply(batch(2), 9.2)
    seen.keep([7])
    assert seen.view([7], 9.2).in_flight.tolist() == [0]
    assert not seen._former_parts and len(seen._rows) == 1
    # Another one takes its place: of this node it is a part, and counted once.
    seen.keep([7], {71: 7, 73: 7})
    seen.apply(batch(3, NodeObservation(71, in_flight=4)), 9.4)
    parts = seen.view([71, 73], 9.4)
    whole = with_parts(seen.view([7], 9.4), parts, np.array([0, 0]), np.zeros(2, dtype=np.bool_))
    assert whole.in_flight.tolist() == [4]


def test_what_is_open_on_a_node_is_not_known_where_that_of_a_part_is_not() -> None:
    seen = observer()
    seen.keep([7], {71: 7, 72: 7})
    seen.apply(batch(0, NodeObservation(72, in_flight=4)), 0.0)
    seen.apply(Batch("edge-2", 1, 0, ()), 9.0)
    parts = seen.view([71, 72], 9.0)
    whole = with_parts(seen.view([7], 9.0), parts, np.array([0, 0]), np.zeros(2, dtype=np.bool_))
    assert (parts.in_flight_known.tolist(), whole.in_flight_known.tolist()) == (
        [True, False],
        [False],
    )
