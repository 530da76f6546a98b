"""Reports over the wire and back; what other machines wrote is checked."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.discovery import report as report_module
from isocost.discovery.report import MAX_REASON_LENGTH, ReportReader, decode_node
from isocost.errors import TelemetryError
from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    HealthSignals,
    Model,
    Node,
    NodeSample,
    Signal,
    SignalState,
    Xid,
    measured,
)
from isocost.sample_rows import ENGINE_SIGNALS, NODE_SIGNALS
from isocost.telemetry.report import StreamMemory, encode_report
from isocost.v1 import roster_pb2, telemetry_pb2
from tests.unit.fleet_builder import node, sample
from tests.unit.sample_blocks import samples_of
from tests.unit.telemetry_reports import put_signal, with_nodes

AGES_S = st.integers(0, 5000).map(lambda age_ms: age_ms / 1e3)
SIGNALS = st.one_of(
    st.sampled_from([ABSENT, UNSUPPORTED]),
    st.builds(
        Signal,
        st.sampled_from([SignalState.MEASURED, SignalState.STALE]),
        st.floats(0, 1e15),
        AGES_S,
    ),
)
HEALTH = st.builds(
    HealthSignals,
    *[SIGNALS] * (len(dataclasses.fields(HealthSignals)) - 1),
    xids=st.lists(
        st.builds(Xid, st.integers(0, 2**32 - 1), st.integers(1, 9), AGES_S), max_size=3
    ).map(tuple),
)
ENGINES = st.builds(EngineSample, *[SIGNALS] * 7)
SAMPLES = st.builds(
    NodeSample,
    node=st.builds(
        node,
        name=st.sampled_from(["a", "b-1"]),
        rack=st.sampled_from(["r1", "row-2.b"]),
        gpu_count=st.integers(1, 64),
        models=st.lists(
            st.builds(
                Model,
                st.text(min_size=1, max_size=5),
                st.lists(st.text(max_size=3), max_size=2).map(tuple),
                st.integers(1, 64),
                st.integers(0, 2**60),
                st.integers(0, 2**40),
                st.integers(0, 2**31),
            ),
            max_size=2,
        ).map(tuple),
    ),
    engine_up=st.booleans(),
    gpus=st.lists(
        st.builds(
            GpuSample,
            st.text(max_size=8),
            *[SIGNALS] * 5,
            lost=st.booleans(),
            health=st.none() | HEALTH,
            health_age_s=AGES_S,
        ),
        max_size=3,
    ).map(tuple),
    engine=ENGINES,
    net_bytes_per_s=SIGNALS,
    clock_offset_s=st.integers(-(10**12), 10**12).map(lambda offset_ms: offset_ms / 1e3),
    cuda_handles=SIGNALS,
    cuda_handles_dropped=st.booleans(),
    by_model=st.lists(st.tuples(st.text(max_size=5), ENGINES), max_size=2).map(tuple),
    taken_s=st.just(2.5),
)
SAMPLE = sample(node())


@given(st.lists(SAMPLES, max_size=3))
def test_what_was_sampled_arrives_unchanged(samples: list[NodeSample]) -> None:
    got = ReportReader().read(
        encode_report("a1", 7, 1.5, 2.5, samples).SerializeToString(), unix_s=1.0
    )
    assert (got.agent, got.sequence, got.wall_unix_s, got.monotonic_s) == ("a1", 7, 1.5, 2.5)
    assert samples_of(got) == tuple(samples)
    assert got.refused == ()
    assert got.clock_offset_s == 0.5


@given(st.lists(st.lists(SAMPLES, max_size=2), min_size=1, max_size=4))
def test_what_is_not_told_again_is_as_it_was(rounds: list[list[NodeSample]]) -> None:
    reader, memory = ReportReader(), StreamMemory()
    for sequence, samples in enumerate(rounds):
        report = encode_report("a1", sequence, 1.5, 2.5, samples)
        memory.shorten(report)
        assert samples_of(reader.read(report.SerializeToString(), 1.0)) == tuple(samples)


def test_only_what_changed_is_told_again() -> None:
    def told(of: NodeSample) -> tuple[bool, bool]:
        report = encode_report("a1", 1, 0.0, 0.0, [of])
        memory.shorten(report)
        return report.HasField("nodes"), report.HasField("health")

    memory = StreamMemory()
    cold, hot = (
        dataclasses.replace(SAMPLE, gpus=(GpuSample("GPU-0", health=HealthSignals(celsius)),))
        for celsius in (measured(50.0), measured(51.0))
    )
    assert [told(of) for of in (cold, cold, hot, hot)] == [
        (True, True),
        (False, False),
        (False, True),
        (False, False),
    ]
    assert told(dataclasses.replace(hot, node=node("other"))) == (True, False)


def test_a_stream_that_does_not_say_who_its_nodes_are_is_refused() -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [SAMPLE])
    report.ClearField("nodes")
    with pytest.raises(TelemetryError, match="does not name its nodes"):
        ReportReader().read(report.SerializeToString(), 0.0)


@pytest.mark.parametrize("field", ["node_rows", "gpu_rows"])
def test_rows_that_are_not_those_of_the_nodes_are_refused(field: str) -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [SAMPLE])
    setattr(report, field, getattr(report, field)[:-1])
    with pytest.raises(TelemetryError, match="bytes, where those of 1 nodes and 1 GPUs have"):
        ReportReader().read(report.SerializeToString(), 0.0)


def test_health_of_another_number_of_gpus_is_refused() -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [SAMPLE])
    report.health = b""
    with pytest.raises(TelemetryError, match="health of 0 of 1 GPUs"):
        ReportReader().read(report.SerializeToString(), 0.0)


@pytest.mark.parametrize(("place", "size"), [(1, 91), (0, 90)])
def test_a_model_of_no_node_or_without_its_numbers_is_refused(place: int, size: int) -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [SAMPLE])
    report.by_model.add(node=place, model="m", row=bytes(size))
    with pytest.raises(TelemetryError, match="the model 'm' is no engine's"):
        ReportReader().read(report.SerializeToString(), 0.0)


def test_models_are_those_of_their_nodes_also_behind_one_that_is_refused() -> None:
    told = (("m", EngineSample(running=measured(3.0))),)
    samples = [sample(node("bad", gpu_count=0)), sample(node("plain")), sample(node("good"))]
    samples[0] = dataclasses.replace(samples[0], by_model=told)
    samples[2] = dataclasses.replace(samples[2], by_model=told)
    report = encode_report("a1", 1, 0.0, 0.0, samples)
    got = samples_of(ReportReader().read(report.SerializeToString(), 0.0))
    assert [item.by_model for item in got] == [(), told]


def test_a_node_that_did_not_change_is_the_same_object_again() -> None:
    reader = ReportReader()
    message = encode_report("a1", 1, 0.0, 0.0, [sample(node())])
    first, again = (samples_of(reader.read(message.SerializeToString(), 0.0))[0] for _ in range(2))
    assert first.node is again.node


def test_health_that_did_not_change_is_the_same_object_again() -> None:
    reader = ReportReader()
    healths = []
    for celsius, age_s in ((50.0, 0.1), (50.0, 0.3), (51.0, 0.1)):
        health = HealthSignals(temperature_celsius=measured(celsius))
        gpu = GpuSample("GPU-0", health=health, health_age_s=age_s)
        message = encode_report("a1", 1, 0.0, 0.0, [dataclasses.replace(SAMPLE, gpus=(gpu, gpu))])
        got = samples_of(reader.read(message.SerializeToString(), 0.0))[0].gpus
        assert [item.health_age_s for item in got] == [age_s, age_s]
        healths += [item.health for item in got]
    assert len({id(health) for health in healths[:4]}) == 1
    assert healths[4] is healths[5] and healths[4] != healths[0]


def test_health_that_is_none_is_refused_with_its_report() -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [SAMPLE])
    report.health = telemetry_pb2.HealthList(gpus=[b"\xff\xff"]).SerializeToString()
    with pytest.raises(TelemetryError, match="health of a GPU"):
        ReportReader().read(report.SerializeToString(), 0.0)


@pytest.mark.parametrize(
    ("state", "value"),
    [
        (SignalState.MEASURED, math.nan),
        (SignalState.MEASURED, math.inf),
        (SignalState.STALE, -1.0),
        (9, 5.0),
    ],
)
def test_a_signal_that_cannot_be_is_absent(state: int, value: float) -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [sample(node())])
    place = (*ENGINE_SIGNALS, *NODE_SIGNALS).index("net_bytes_per_s")
    report.node_rows = put_signal(report.node_rows, place, state, value)
    assert (
        samples_of(ReportReader().read(report.SerializeToString(), 0.0))[0].net_bytes_per_s
        == ABSENT
    )


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("name", "", "name: ''"),
        ("name", "bad\nname", "name: 'bad\\nname'"),
        ("rack", "", "rack: ''"),
        ("host", "h 1", "host: 'h 1'"),
        ("gpu_count", 0, "gpu_count: 0"),
        ("gpu_count", 65, "gpu_count: 65"),
        ("instance_id", "other@1", "not name@start-epoch"),
        ("instance_id", "bad", "not name@start-epoch"),
        ("instance_id", "bad@", "not name@start-epoch"),
        ("instance_id", "bad@-1", "not name@start-epoch"),
        ("instance_id", "bad@\u0663", "not name@start-epoch"),
        ("instance_id", "bad@" + "9" * 13, "not name@start-epoch"),
        ("instance_id", "bad@" + "9" * 5000, "bad@999"),
        ("address", "", "IP:PORT"),
        ("address", "example.org:80", "IP:PORT"),
        ("address", "192.0.2.1:0", "IP:PORT"),
        ("address", "192.0.2.1:" + "9" * 5000, "address"),
        ("address", ":8000", "IP:PORT"),
        ("address", "[fe80::1%eth0]:80", "zone"),
    ],
)
def test_a_node_that_cannot_be_is_refused_and_the_others_stay(
    field: str, value: object, reason: str
) -> None:
    report = with_nodes(
        lambda bad: setattr(bad, field, value), sample(node("bad")), sample(node("good"))
    )
    got = ReportReader().read(report.SerializeToString(), 0.0)
    assert [sample.node.name for sample in samples_of(got)] == ["good"]
    assert len(got.refused) == 1 and reason in got.refused[0]
    assert got.refused[0].isprintable() and len(got.refused[0]) <= MAX_REASON_LENGTH


def test_a_model_that_cannot_be_is_refused_with_its_node() -> None:
    report = with_nodes(lambda bad: setattr(bad.models[0], "weight_bits", 0), sample(node("bad")))
    got = ReportReader().read(report.SerializeToString(), 0.0)
    assert samples_of(got) == () and "models.0.weight_bits" in got.refused[0]


@pytest.mark.parametrize(
    ("address", "as_envoy_prints_it"),
    [
        ("192.0.2.1:08080", "192.0.2.1:8080"),
        ("[2001:DB8:0::1]:8080", "[2001:db8::1]:8080"),
        ("[2001:db8:0:0:0:0:0:1]:80", "[2001:db8::1]:80"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1:80"),
    ],
)
def test_an_address_is_kept_as_envoy_prints_it(address: str, as_envoy_prints_it: str) -> None:
    report = encode_report("a1", 1, 0.0, 0.0, [sample(node(address=address))])
    got = ReportReader().read(report.SerializeToString(), 0.0)
    assert samples_of(got)[0].node.address == as_envoy_prints_it


def test_a_node_is_checked_once_while_it_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def counted(message: roster_pb2.Node) -> Node:
        checked.append(message.name)
        return decode_node(message)

    monkeypatch.setattr(report_module, "decode_node", counted)
    report = encode_report(
        "a1", 1, 0.0, 0.0, [sample(node("bad", gpu_count=0)), sample(node("good"))]
    )
    reader = ReportReader()
    assert [len(reader.read(report.SerializeToString(), 0.0).refused) for _ in range(3)] == [
        1,
        1,
        1,
    ]
    assert checked == ["bad", "good"]


@pytest.mark.parametrize("agent", ["", "a\nb", "a" * 129])
def test_a_report_of_an_agent_without_a_usable_name_is_refused(agent: str) -> None:
    with pytest.raises(TelemetryError, match="no agent's name"):
        ReportReader().read(telemetry_pb2.TelemetryReport(agent=agent).SerializeToString(), 0.0)


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(TelemetryError, match="not a TelemetryReport"):
        ReportReader().read(b"\xff\xff", 0.0)
