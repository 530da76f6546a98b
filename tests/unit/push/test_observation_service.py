"""What a VM reports is bounded before anything counts it."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isocost.observe import batch
from isocost.observe.batch import Answer, Batch, Placement, PrefillSums
from isocost.observe.fleet import Decisions, FleetObserver
from isocost.observe.workers import WorkerCount
from isocost.push.observation_service import decode_batch, decode_workers
from isocost.v1.observation_pb2 import NodeObservation, ObservationBatch, ObservationReport, Workers

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


UINT32 = st.integers(0, 2**32 - 1)
COUNTS = [*(kind.name for kind in fields(Decisions)), "stale_choices"]


@given(st.text(), st.lists(UINT32, min_size=len(COUNTS), max_size=len(COUNTS)), st.booleans())
def test_every_count_of_a_batch_reads_back_as_written(
    envoy: str, numbers: list[int], leaving: bool
) -> None:
    counts = dict(zip(COUNTS, numbers, strict=True))
    data = ObservationReport(
        batches=[
            ObservationBatch(envoy=envoy, incarnation=1, sequence=2, leaving=leaving, **counts)
        ]
    ).SerializeToString()
    report = ObservationReport.FromString(data)
    assert not report.HasField("workers")
    assert decode_batch(report.batches[0]) == Batch(envoy, 1, 2, (), **counts)


@given(st.text(), UINT32, UINT32)
def test_no_more_workers_are_alive_than_there_are(envoy: str, live: int, expected: int) -> None:
    data = ObservationReport(workers=Workers(envoy=envoy, live=live, expected=expected))
    report = ObservationReport.FromString(data.SerializeToString())
    assert report.workers.envoy == envoy
    count = decode_workers(report.workers)
    assert count == WorkerCount(min(live, expected), expected)
    assert count.missing >= 0


def test_stale_choices_and_failures_of_the_host_add_up() -> None:
    observer = FleetObserver(10.0, 5.0)
    for sequence in (1, 2, 2):
        batch = report(sequence)
        batch.stale_choices, batch.fallback_host_failure = 3, 2
        observer.apply(decode_batch(batch), 0.0)
    assert observer.stale_choices == 6
    assert observer.decisions.fallback_host_failure == 4


def test_work_placements_and_answers_are_taken_over() -> None:
    message = report(
        1,
        in_flight=2,
        pending_tokens=1000,
        kv_tokens=3000,
        prefill_count=2,
        prefill_tokens_sum=30,
        prefill_us_sum=3_000_000,
        finish_stop=1,
        finish_length=2,
        finish_tool=3,
        finish_other=4,
    )
    message.placements.add(node_id=NODE_ID, blocks=[1, 2**64 - 1])
    message.placements.add(node_id=0, blocks=[5])
    message.answers.add(user_bucket=65_536, model="m", output_tokens=9)
    message.answers.add(user_bucket=65_537, model="m", output_tokens=9)
    batch = decode_batch(message)
    (node,) = batch.nodes
    assert (node.pending_tokens, node.kv_tokens) == (1000, 3000)
    assert node.prefill == PrefillSums(2, 30, 3.0)
    assert (node.finish_stop, node.finish_length) == (1, 2)
    assert (node.finish_tool, node.finish_other) == (3, 4)
    assert batch.placements == (Placement(NODE_ID, (1, 2**64 - 1)),)
    assert batch.answers == (Answer(65_536, "m", 9),)


def test_tokens_without_open_requests_count_nothing() -> None:
    (node,) = decode_batch(report(1, pending_tokens=2**64 - 1, kv_tokens=2**64 - 1)).nodes
    assert (node.pending_tokens, node.kv_tokens) == (0, 0)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_sums_that_cannot_be_teach_nothing_and_stop_no_tick(
    count: int, tokens: int, sum_us: int
) -> None:
    message = report(
        1,
        prefill_count=count,
        prefill_tokens_sum=tokens,
        prefill_us_sum=sum_us,
    )
    observer = FleetObserver(10.0, 5.0)
    observer.apply(decode_batch(message), 0.0)
    token_s = observer.speeds([NODE_ID], np.zeros(1, dtype=np.intp), 0.2).token_s
    assert np.isfinite(token_s).all()
    assert (token_s > 0.0).all()


UINT64 = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 10**6))
SOME32 = st.one_of(UINT32, st.integers(0, 9))
OBSERVED = st.builds(
    NodeObservation,
    node_id=st.integers(0, 9),
    **dict.fromkeys(("in_flight", "started", "succeeded", "total_count", "finish_stop"), SOME32),
    **dict.fromkeys(("first_byte_count", "tpot_count", "prefill_count", "resets"), SOME32),
    **dict.fromkeys(("open_age_ms_sum", "pending_tokens", "kv_tokens", "chunks"), UINT64),
    **dict.fromkeys(("first_byte_us_sum", "tpot_us_sum", "total_us_sum"), UINT64),
    **dict.fromkeys(("prefill_tokens_sum", "prefill_us_sum", "output_tokens"), UINT64),
)


def one_by_one(node: NodeObservation) -> batch.NodeObservation:
    """The rules for each number, as they read."""
    in_flight = min(node.in_flight, 100_000)
    seconds = node.prefill_us_sum / 1e6
    possible = node.prefill_tokens_sum <= node.prefill_count * 100_000 * 10_000_000
    possible = possible and seconds <= node.prefill_count * DAY_S
    return batch.NodeObservation(
        node_id=node.node_id,
        in_flight=in_flight,
        open_age_s_sum=min(node.open_age_ms_sum / 1e3, in_flight * DAY_S),
        started=node.started,
        succeeded=node.succeeded,
        resets=node.resets,
        first_byte_count=node.first_byte_count,
        first_byte_ms_sum=min(node.first_byte_us_sum / 1e3, node.first_byte_count * DAY_S * 1e3),
        tpot_count=node.tpot_count,
        tpot_ms_sum=min(node.tpot_us_sum / 1e3, node.tpot_count * DAY_S * 1e3),
        total_count=node.total_count,
        total_ms_sum=min(node.total_us_sum / 1e3, node.total_count * DAY_S * 1e3),
        chunks=node.chunks,
        output_tokens=node.output_tokens,
        pending_tokens=min(node.pending_tokens, in_flight * 10_000_000),
        kv_tokens=min(node.kv_tokens, in_flight * 10_000_000),
        prefill=PrefillSums(node.prefill_count, node.prefill_tokens_sum, seconds)
        if possible
        else PrefillSums(),
        finish_stop=node.finish_stop,
    )


@given(st.lists(OBSERVED, max_size=6))
def test_a_batch_as_columns_is_what_its_nodes_say_one_by_one(nodes: list[NodeObservation]) -> None:
    got = decode_batch(ObservationBatch(envoy="edge", nodes=nodes)).nodes
    expected = batch.node_table([one_by_one(node) for node in nodes if node.node_id])
    table = batch.node_table(got)
    assert table.ids == expected.ids
    np.testing.assert_allclose(
        table.columns(batch.NUMBERS), expected.columns(batch.NUMBERS), rtol=1e-12
    )
