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
    measured,
)
from isocost.sample_rows import ENGINE_SIGNALS
from isocost.score.columns import Column, column, combine
from isocost.score.rows import ReadSample, node_columns, vram_total_bytes
from isocost.score.telemetry import work_done
from isocost.telemetry.report import encode_report
from isocost.weight.hardware_watch import HardwareWatch
from tests.unit.fleet_builder import node, sample
from tests.unit.hardware_samples import gpu, health, with_gpus, xids
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
SAMPLES = st.builds(
    NodeSample,
    node=st.just(node()),
    engine_up=st.booleans(),
    gpus=st.lists(st.builds(GpuSample, st.just("GPU-0"), *[SIGNALS] * 5), max_size=3).map(tuple),
    engine=st.builds(EngineSample, *[SIGNALS] * 7),
    net_bytes_per_s=SIGNALS,
    kv_cache_age_s=SIGNALS,
    cuda_handles=SIGNALS,
)
HOW = {
    "vram_total_bytes": "sum",
    "vram_free_bytes": "sum",
    "pcie_bytes_per_s": "max",
    "nvlink_active_fraction": "mean",
}


def over_the_wire(of: NodeSample) -> ReadSample:
    data = encode_report("a1", 1, 0.0, of.taken_s, [of]).SerializeToString()
    (got,) = ReportReader().read(data, 0.0).samples
    assert isinstance(got, ReadSample)
    return got


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
    read = [None if item is None else over_the_wire(item) for item in samples]
    for told in (samples, read):
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
    got = node_columns(ReportReader().read(report.SerializeToString(), 0.0).samples, np.zeros(1))
    for name in ("running", "pcie_bytes_per_s"):
        signals = got[name]
        assert (signals.state[0], signals.value[0], signals.age_s[0]) == (0, 0.0, 0.0)


def test_what_is_unsupported_has_no_value_whatever_came_with_it() -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [sample(node())])
    report.node_rows = put_signal(
        report.node_rows, ENGINE_SIGNALS.index("waiting"), SignalState.UNSUPPORTED, 5.0
    )
    waiting = node_columns(
        ReportReader().read(report.SerializeToString(), 0.0).samples, np.zeros(1)
    )["waiting"]
    assert (waiting.state[0], waiting.value[0]) == (SignalState.UNSUPPORTED, 0.0)


def test_memory_is_zero_where_it_is_not_known() -> None:
    both = with_gpus(node(), gpu(), gpu(uuid="GPU-1"))
    unknown = with_gpus(node(), gpu(), replace(gpu(uuid="GPU-1"), vram_total_bytes=ABSENT))
    assert vram_total_bytes([both, unknown, None]).tolist() == [160e9, 0.0, 0.0]


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
def test_a_sample_is_well_only_if_the_health_table_has_nothing_on_it(
    told: GpuSample, well: bool
) -> None:
    assert over_the_wire(with_gpus(node(), gpu(), told)).well is well


def test_a_sample_whose_engine_lost_its_handles_is_not_well() -> None:
    assert not over_the_wire(with_gpus(node(), gpu(), handles_dropped=True)).well


def test_a_sample_that_was_read_is_equal_to_the_one_that_was_sent() -> None:
    sent = replace(sample(node()), cuda_handles=measured(12.0))
    assert over_the_wire(sent) == sent and sent == over_the_wire(sent)
    assert hash(over_the_wire(sent)) == hash(sent)
    assert over_the_wire(sent) != replace(sent, net_bytes_per_s=measured(1.0))
    with pytest.raises(AttributeError, match="no_such"):
        assert over_the_wire(sent).no_such  # type: ignore[attr-defined]


def test_a_watch_finds_the_same_in_what_was_read_as_in_what_was_sent() -> None:
    nodes = [node(f"n{number}") for number in range(4)]
    sent = [
        with_gpus(nodes[0], gpu(), gpu(uuid="GPU-1")),
        with_gpus(nodes[1], gpu(), gpu(health(row_remap_pending=1), uuid="GPU-1", links=0.5)),
        with_gpus(nodes[2], gpu(xids(79))),
        with_gpus(nodes[3], gpu(), handles_dropped=True),
    ]
    found = []
    for samples in (sent, [over_the_wire(item) for item in sent]):
        watched = HardwareWatch().tick(nodes, samples, [0.0] * 4, 1000.0)
        found.append((watched.factor.tolist(), watched.action.tolist(), watched.begun))
    assert found[0] == found[1] and len(found[0][2]) == 4
