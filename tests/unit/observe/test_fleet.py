"""The observer counts every batch once and forgets the nodes that left."""

from isocost.model import ABSENT
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver


def batch(sequence: int, *nodes: NodeObservation, **decisions: int) -> Batch:
    return Batch("edge-1", incarnation=1, sequence=sequence, nodes=nodes, **decisions)


def test_a_batch_that_arrives_twice_counts_once() -> None:
    observer = FleetObserver(10.0)
    once = batch(0, NodeObservation(7, started=4, server_errors=2), picked=4, fallback_no_table=1)
    observer.apply(once, 0.0)
    observer.apply(once, 0.0)
    assert observer.outcomes(7)["started"] == 4
    assert observer.outcomes(7)["server_errors"] == 2
    assert observer.decisions.picked == 4
    assert observer.decisions.fallback_no_table == 1


def test_the_view_follows_the_order_of_the_ids() -> None:
    observer = FleetObserver(10.0)
    observer.apply(
        batch(
            0,
            NodeObservation(7, in_flight=2, tpot_count=2, tpot_ms_sum=30.0),
            NodeObservation(8, in_flight=1, first_byte_count=1, first_byte_ms_sum=90.0),
        ),
        0.0,
    )
    view = observer.view([8, 7, 9], 0.0)
    assert view.in_flight.tolist() == [1, 2, 0]
    assert [signal.value for signal in view.tpot_ms] == [0.0, 15.0, 0.0]
    assert view.tpot_ms[0] == ABSENT
    assert view.first_byte_ms[0].value == 90.0


def test_nodes_that_left_the_roster_are_forgotten() -> None:
    observer = FleetObserver(10.0)
    observer.apply(batch(0, NodeObservation(7, started=1), NodeObservation(8, started=1)), 0.0)
    observer.keep([8])
    assert observer.outcomes(7)["started"] == 0
    assert observer.outcomes(8)["started"] == 1
