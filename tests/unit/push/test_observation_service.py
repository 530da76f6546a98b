"""What a VM reports is bounded before anything counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from struct import pack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.observe import batch
from isocost.observe.batch import (
    Answer,
    Batch,
    NodeObservation,
    Placement,
    PrefillSums,
    node_table,
)
from isocost.observe.fleet import Decisions, FleetObserver
from isocost.observe.workers import WorkerCount
from isocost.push.observation_service import RowError, decode_batch, decode_workers
from isocost.v1.observation_pb2 import ObservationBatch, ObservationReport, Workers

NODE_ID = 7
DAY_S = 86_400.0


#: The numbers of a node's rows as they are on the wire, in their order.
OPEN = ("in_flight", "open_age_ms", "pending_tokens", "kv_tokens")
COUNTS = (
    *("started", "succeeded", "client_errors", "rate_limited", "server_errors", "resets"),
    *("client_aborts", "failed_attempts", "unknown_attempts", "first_bytes", "tpots", "totals"),
    *("prefills", "finish_stop", "finish_length", "finish_tool", "finish_other"),
)
SUMS = (
    *("first_byte_us", "tpot_us", "total_us", "chunks", "output_tokens"),
    *("prefill_tokens", "prefill_us"),
)
Numbers = dict[str, int]


def report(sequence: int, **numbers: int) -> ObservationBatch:
    return batch_of([(NODE_ID, numbers)], sequence)


def batch_of(nodes: Sequence[tuple[int, Numbers]], sequence: int = 1) -> ObservationBatch:
    """With both rows of each node."""
    state, news = b"", b""
    for node_id, numbers in nodes:
        assert numbers.keys() <= {*OPEN, *COUNTS, *SUMS}
        state += pack("<QI3Q", node_id, *(numbers.get(name, 0) for name in OPEN))
        news += pack("<Q17I7Q", node_id, *(numbers.get(name, 0) for name in (*COUNTS, *SUMS)))
    return ObservationBatch(envoy="edge", incarnation=1, sequence=sequence, open=state, news=news)


def test_numbers_and_units_are_taken_over() -> None:
    (node,) = decode_batch(
        report(1, in_flight=2, open_age_ms=1500, succeeded=3, tpots=4, tpot_us=8000)
    ).nodes
    assert (node.node_id, node.in_flight, node.open_age_s_sum) == (NODE_ID, 2, 1.5)
    assert (node.succeeded, node.tpot_count, node.tpot_ms_sum) == (3, 4, 8.0)


def test_an_impossible_age_or_count_stops_no_tick() -> None:
    observer = FleetObserver(10.0, 5.0)
    most = {"in_flight": 2**32 - 1, "open_age_ms": 2**64 - 1}
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
        report(1, open_age_ms=2**64 - 1, tpot_us=2**64 - 1, first_byte_us=2**64 - 1)
    ).nodes
    assert (node.open_age_s_sum, node.tpot_ms_sum, node.first_byte_ms_sum) == (0.0, 0.0, 0.0)
    (node,) = decode_batch(report(2, totals=2, total_us=2**64 - 1)).nodes
    assert node.total_ms_sum == 2 * DAY_S * 1e3


UINT32 = st.integers(0, 2**32 - 1)
DECISIONS = [*(kind.name for kind in fields(Decisions)), "stale_choices"]


@given(st.text(), st.lists(UINT32, min_size=len(DECISIONS), max_size=len(DECISIONS)), st.booleans())
def test_every_count_of_a_batch_reads_back_as_written(
    envoy: str, numbers: list[int], leaving: bool
) -> None:
    counts = dict(zip(DECISIONS, numbers, strict=True))
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
        prefills=2,
        prefill_tokens=30,
        prefill_us=3_000_000,
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
        prefills=count,
        prefill_tokens=tokens,
        prefill_us=sum_us,
    )
    observer = FleetObserver(10.0, 5.0)
    observer.apply(decode_batch(message), 0.0)
    token_s = observer.speeds([NODE_ID], np.zeros(1, dtype=np.intp), 0.2).token_s
    assert np.isfinite(token_s).all()
    assert (token_s > 0.0).all()


def test_what_are_no_rows_is_refused() -> None:
    for rows in ({"open": bytes(35)}, {"news": bytes(133)}):
        with pytest.raises(RowError, match="are no rows of"):
            decode_batch(ObservationBatch(envoy="edge", **rows))


def test_a_request_of_no_node_counts_nowhere() -> None:
    numbers = {"in_flight": 1, "started": 2}
    batch = decode_batch(batch_of([(0, numbers), (NODE_ID, numbers)]))
    assert [node.node_id for node in batch.nodes] == [NODE_ID]


UINT64 = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 10**6))
SOME32 = st.one_of(UINT32, st.integers(0, 9))
OBSERVED = st.fixed_dictionaries(
    {"in_flight": SOME32}
    | dict.fromkeys(OPEN[1:], UINT64)
    | dict.fromkeys(COUNTS, SOME32)
    | dict.fromkeys(SUMS, UINT64)
)


def one_by_one(node_id: int, node: Numbers) -> NodeObservation:
    """The rules for each number, as they read."""
    in_flight = min(node["in_flight"], 100_000)
    seconds = node["prefill_us"] / 1e6
    possible = node["prefill_tokens"] <= node["prefills"] * 100_000 * 10_000_000
    possible = possible and seconds <= node["prefills"] * DAY_S
    return NodeObservation(
        node_id,
        in_flight=in_flight,
        open_age_s_sum=min(node["open_age_ms"] / 1e3, in_flight * DAY_S),
        pending_tokens=min(node["pending_tokens"], in_flight * 10_000_000),
        kv_tokens=min(node["kv_tokens"], in_flight * 10_000_000),
        **{name: node[name] for name in COUNTS[:9]},
        first_byte_count=node["first_bytes"],
        first_byte_ms_sum=min(node["first_byte_us"] / 1e3, node["first_bytes"] * DAY_S * 1e3),
        tpot_count=node["tpots"],
        tpot_ms_sum=min(node["tpot_us"] / 1e3, node["tpots"] * DAY_S * 1e3),
        total_count=node["totals"],
        total_ms_sum=min(node["total_us"] / 1e3, node["totals"] * DAY_S * 1e3),
        chunks=node["chunks"],
        output_tokens=node["output_tokens"],
        prefill=PrefillSums(node["prefills"], node["prefill_tokens"], seconds)
        if possible
        else PrefillSums(),
        **{name: node[name] for name in COUNTS[13:]},
    )


@given(st.dictionaries(st.integers(1, 2**64 - 1), OBSERVED, max_size=6))
def test_a_batch_as_columns_is_what_its_nodes_say_one_by_one(nodes: dict[int, Numbers]) -> None:
    got = node_table(decode_batch(batch_of(list(nodes.items()))).nodes)
    expected = node_table([one_by_one(node_id, numbers) for node_id, numbers in nodes.items()])
    for columns, others, names in (
        (got.open, expected.open, batch.OPEN),
        (got.news, expected.news, batch.NEWS),
    ):
        assert columns.ids.tolist() == list(nodes)
        np.testing.assert_allclose(columns.columns(names), others.columns(names), rtol=1e-12)
