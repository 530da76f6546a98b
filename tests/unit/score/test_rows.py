"""The fleet's samples as columns are what each signal of each GPU says, however they came."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.discovery.report import ReportReader
from isocost.model import (
    ABSENT,
    SAMPLE_FRESH_S,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    HealthSignals,
    NodeSample,
    Signal,
    SignalState,
    Xid,
)
from isocost.sample_rows import ENGINE_SIGNALS
from isocost.score.block import Block
from isocost.score.columns import Column, column, combine
from isocost.score.fleet_samples import FleetSamples, layout
from isocost.score.rows import node_columns, vram_total_bytes
from isocost.score.telemetry import work_done
from isocost.telemetry.report import encode_report
from isocost.v1 import telemetry_pb2
from isocost.weight.hardware_watch import HardwareWatch
from tests.unit.fleet_builder import node, sample
from tests.unit.hardware_samples import gpu, health, with_gpus, xids
from tests.unit.sample_blocks import fleet_samples
from tests.unit.telemetry_reports import put_gpu_signal, put_signal

#: In steps that the wire carries.
AGES_S = st.integers(0, 3000).map(lambda age_ms: age_ms / 1e3)
SIGNALS = st.one_of(
    st.sampled_from([ABSENT, UNSUPPORTED]),
    st.builds(
        Signal,
        st.sampled_from([SignalState.MEASURED, SignalState.STALE]),
        # Sums of whole numbers are the same in any order.
        st.integers(0, 2**40).map(float),
        AGES_S,
    ),
)
ENGINES = st.builds(EngineSample, *[SIGNALS] * 7)
SAMPLES = st.builds(
    NodeSample,
    node=st.just(node()),
    engine_up=st.booleans(),
    gpus=st.lists(st.builds(GpuSample, st.just("GPU-0"), *[SIGNALS] * 5), max_size=3).map(tuple),
    engine=ENGINES,
    net_bytes_per_s=SIGNALS,
    kv_cache_age_s=SIGNALS,
    cuda_handles=SIGNALS,
    cuda_handles_dropped=st.booleans(),
    engine_silent=st.booleans(),
    clock_offset_s=st.integers(-(10**6), 10**6).map(lambda offset_ms: offset_ms / 1e3),
    by_model=st.lists(st.tuples(st.text(max_size=3), ENGINES), max_size=2).map(tuple),
)
HOW = {
    "vram_total_bytes": "sum",
    "vram_free_bytes": "sum",
    "pcie_bytes_per_s": "max",
    "nvlink_active_fraction": "mean",
}


def over_the_wire(samples: Sequence[NodeSample | None]) -> FleetSamples:
    """Each of an agent of its own."""
    return fleet([[of] for of in samples if of], [of is not None for of in samples])


def of_one_agent(samples: Sequence[NodeSample | None]) -> FleetSamples:
    """All of one agent, behind one that it refuses: in the opposite order."""
    bad = sample(node("bad", gpu_count=0))
    told = [of for of in samples if of]
    blocks = [read(encode_report("a1", 1, 0.0, 0.0, [bad, *reversed(told)]))] if told else []
    left = iter(reversed(blocks[0].entries)) if told else iter(())
    return FleetSamples(layout(blocks, [(0, next(left)) if of else None for of in samples]), blocks)


def fleet(agents: Sequence[Sequence[NodeSample]], told: Sequence[bool]) -> FleetSamples:
    """Of nodes of which some are ``told``, in the order of their agents."""
    blocks = [read(encode_report("a1", 1, 0.0, of[0].taken_s, of)) for of in agents]
    entries = ((number, entry) for number, block in enumerate(blocks) for entry in block.entries)
    return FleetSamples(layout(blocks, [next(entries) if it else None for it in told]), blocks)


def read(report: telemetry_pb2.TelemetryReport) -> Block:
    return ReportReader().read(report.SerializeToString(), 0.0).block


def alone(report: telemetry_pb2.TelemetryReport) -> FleetSamples:
    """The only node of the only agent."""
    block = read(report)
    return FleetSamples(layout([block], [(0, block.entries[0])]), [block])


def one_by_one(
    samples: Sequence[NodeSample | None],
    ages_s: Sequence[float],
    read: Callable[[NodeSample], Signal],
) -> Column:
    signals = []
    for item, age_s in zip(samples, ages_s, strict=True):
        signal = ABSENT if item is None else read(item)
        if signal.known and age_s > SAMPLE_FRESH_S:
            signal = Signal(SignalState.STALE, signal.value, signal.age_s + age_s)
        signals.append(signal)
    return column(signals)


def over_gpus(of: NodeSample, name: str) -> Signal:
    signals = [getattr(item, name) for item in of.gpus]
    return combine(signals, HOW[name]) if signals else ABSENT


def assert_same(got: Column, expected: Column) -> None:
    assert got.state.tolist() == expected.state.tolist()
    np.testing.assert_array_equal(got.value, np.where(expected.known, expected.value, 0.0))
    np.testing.assert_allclose(got.age_s, expected.age_s, rtol=1e-12)


@given(st.lists(st.none() | SAMPLES, max_size=5), st.lists(AGES_S, min_size=5, max_size=5))
def test_columns_are_what_the_signals_say_one_by_one(
    samples: list[NodeSample | None], ages_s: list[float]
) -> None:
    ages_s = ages_s[: len(samples)]
    for told in (over_the_wire(samples), of_one_agent(samples)):
        got = node_columns(told, np.array(ages_s))
        assert got.keys() == {*ENGINE_SIGNALS, "net_bytes_per_s", "kv_cache_age_s", *HOW}
        for name in ENGINE_SIGNALS:
            expected = one_by_one(samples, ages_s, lambda of, n=name: getattr(of.engine, n))
            assert_same(got[name], expected)
        for name in ("net_bytes_per_s", "kv_cache_age_s"):
            assert_same(got[name], one_by_one(samples, ages_s, lambda of, n=name: getattr(of, n)))
        for name in HOW:
            assert_same(got[name], one_by_one(samples, ages_s, lambda of, n=name: over_gpus(of, n)))


@given(SIGNALS, SIGNALS, SIGNALS)
def test_work_is_steps_where_there_are_any_else_all_tokens_that_are_known(
    prompt: Signal, generation: Signal, steps: Signal
) -> None:
    got = work_done(column([prompt]), column([generation]), column([steps]))
    if steps.state is not SignalState.ABSENT:
        expected = steps
    elif generation.known and prompt.known:
        expected = replace(generation, value=generation.value + prompt.value)
    else:
        expected = generation if generation.known else prompt
    assert_same(got, column([expected]))


@pytest.mark.parametrize(
    ("state", "value"),
    [
        (SignalState.MEASURED, math.nan),
        (SignalState.MEASURED, math.inf),
        (SignalState.STALE, -1.0),
        (9, 5.0),
    ],
)
def test_a_number_that_cannot_be_is_absent(state: int, value: float) -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [sample(node())])
    running = ENGINE_SIGNALS.index("running")
    report.node_rows = put_signal(report.node_rows, running, state, value, 7)
    report.gpu_rows = put_gpu_signal(report.gpu_rows, "pcie_bytes_per_s", state, value, 7)
    got = node_columns(alone(report), np.zeros(1))
    for name in ("running", "pcie_bytes_per_s"):
        signals = got[name]
        assert (signals.state[0], signals.value[0], signals.age_s[0]) == (0, 0.0, 0.0)


def test_what_is_unsupported_has_no_value_whatever_came_with_it() -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [sample(node())])
    report.node_rows = put_signal(
        report.node_rows, ENGINE_SIGNALS.index("waiting"), SignalState.UNSUPPORTED, 5.0
    )
    waiting = node_columns(alone(report), np.zeros(1))["waiting"]
    assert (waiting.state[0], waiting.value[0]) == (SignalState.UNSUPPORTED, 0.0)


def test_memory_is_zero_where_it_is_not_known() -> None:
    both = with_gpus(node(), gpu(), gpu(uuid="GPU-1"))
    unknown = with_gpus(node(), gpu(), replace(gpu(uuid="GPU-1"), vram_total_bytes=ABSENT))
    assert vram_total_bytes(fleet_samples([both, unknown, None])).tolist() == [160e9, 0.0, 0.0]


@pytest.mark.parametrize(
    ("told", "well"),
    [
        (gpu(), True),
        (gpu(None), True),
        (gpu(links=UNSUPPORTED), True),
        (gpu(links=Signal(SignalState.ABSENT)), True),
        (gpu(links=0.9), False),
        (gpu(lost=True), False),
        (gpu(health(row_remap_pending=1)), False),
        (gpu(health(pcie_generation=4)), False),
        (gpu(HealthSignals(xids=(Xid(31, 1, 0.0),))), False),
    ],
)
def test_a_sample_is_odd_only_if_the_health_table_may_have_something_on_it(
    told: GpuSample, well: bool
) -> None:
    other, odd = with_gpus(node("other"), gpu()), with_gpus(node(), gpu(), told)
    for samples in (over_the_wire, of_one_agent):
        assert samples([other, None, odd, other]).odd == ([] if well else [2])


def test_a_sample_whose_engine_lost_its_handles_is_odd() -> None:
    assert over_the_wire([None, with_gpus(node(), gpu(), handles_dropped=True)]).odd == [1]


def test_what_a_refused_node_says_is_nobody_s() -> None:
    bad = with_gpus(node("bad", gpu_count=0), gpu(lost=True), handles_dropped=True)
    block = read(encode_report("a1", 1, 0.0, 0.0, [bad, with_gpus(node(), gpu())]))
    samples = FleetSamples(layout([block], [(0, block.entries[0])]), [block])
    assert samples.odd == [] and not samples.handles_dropped.any()


@given(st.lists(st.none() | SAMPLES, max_size=5))
def test_each_sample_is_read_as_it_was_sent(sent: list[NodeSample | None]) -> None:
    for samples in (over_the_wire(sent), of_one_agent(sent)):
        assert list(samples) == sent
        assert [samples.gpus(place) for place in range(len(sent))] == [
            of.gpus if of else () for of in sent
        ]
        assert samples.there.tolist() == [of is not None for of in sent]
        assert samples.down.tolist() == [bool(of and not of.engine_up) for of in sent]
        assert samples.silent.tolist() == [
            bool(of and not of.engine_up and of.engine_silent) for of in sent
        ]
        assert samples.handles_dropped.tolist() == [
            bool(of and of.cuda_handles_dropped) for of in sent
        ]


def test_a_watch_finds_what_is_in_the_samples() -> None:
    nodes = [node(f"n{number}") for number in range(5)]
    sent = [
        with_gpus(nodes[0], gpu(), gpu(uuid="GPU-1")),
        with_gpus(nodes[1], gpu(), gpu(health(row_remap_pending=1), uuid="GPU-1", links=0.5)),
        with_gpus(nodes[2], gpu(xids(79))),
        with_gpus(nodes[3], gpu(), handles_dropped=True),
        None,
    ]
    watched = HardwareWatch().tick(nodes, over_the_wire(sent), [0.0] * 5, 1000.0)
    assert [(name, found.row.name, found.gpu) for name, found in watched.begun] == [
        ("n1", "nvlinks_down", "GPU-1"),
        ("n1", "row_remap_pending", "GPU-1"),
        ("n2", "xid_fatal", "GPU-0"),
        ("n3", "cuda_handles", None),
    ]
