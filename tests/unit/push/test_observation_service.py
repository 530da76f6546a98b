"""What a VM reports is bounded before anything counts it."""

from __future__ import annotations

from isocost.observe.fleet import FleetObserver
from isocost.push.observation_service import decode_batch
from isocost.v1.observation_pb2 import NodeObservation, ObservationBatch

NODE_ID = 7
DAY_S = 86_400.0


def report(sequence: int, **numbers: int) -> ObservationBatch:
    return ObservationBatch(
        envoy="edge",
        incarnation=1,
        sequence=sequence,
        nodes=[NodeObservation(node_id=NODE_ID, **numbers)],
    )


def test_numbers_and_units_are_taken_over() -> None:
    (node,) = decode_batch(
        report(1, in_flight=2, open_age_ms_sum=1500, succeeded=3, tpot_count=4, tpot_us_sum=8000)
    ).nodes
    assert (node.node_id, node.in_flight, node.open_age_s_sum) == (NODE_ID, 2, 1.5)
    assert (node.succeeded, node.tpot_count, node.tpot_ms_sum) == (3, 4, 8.0)


def test_an_impossible_age_or_count_stops_no_tick() -> None:
    observer = FleetObserver(10.0, 5.0)
    most = {"in_flight": 2**32 - 1, "open_age_ms_sum": 2**64 - 1}
    uptime_s = 30 * DAY_S
    for vm in range(100):
        batch = report(1, **most)
        batch.incarnation = vm
        observer.apply(decode_batch(batch), uptime_s)
    observed = observer.view([NODE_ID], uptime_s + 0.2)
    assert 0 < observed.in_flight[0] < 2**32
    assert 0 <= observed.open_age_s_sum[0] <= observed.in_flight[0] * (DAY_S + 1.0)
    for vm in range(100):
        batch = report(2)
        batch.incarnation = vm
        observer.apply(decode_batch(batch), uptime_s + 0.4)
    assert list(observer.view([NODE_ID], uptime_s + 0.6).in_flight) == [0]


def test_an_age_without_open_requests_and_a_time_without_answers_count_nothing() -> None:
    (node,) = decode_batch(
        report(1, open_age_ms_sum=2**64 - 1, tpot_us_sum=2**64 - 1, first_byte_us_sum=2**64 - 1)
    ).nodes
    assert (node.open_age_s_sum, node.tpot_ms_sum, node.first_byte_ms_sum) == (0.0, 0.0, 0.0)
    (node,) = decode_batch(report(2, total_count=2, total_us_sum=2**64 - 1)).nodes
    assert node.total_ms_sum == 2 * DAY_S * 1e3
