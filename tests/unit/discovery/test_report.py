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
from isocost.telemetry.report import encode_report, encode_sample
from isocost.v1 import roster_pb2, telemetry_pb2
from tests.unit.fleet_builder import node, sample

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
    assert got.samples == tuple(samples)
    assert got.refused == ()
    assert got.clock_offset_s == 0.5


def test_a_node_that_did_not_change_is_the_same_object_again() -> None:
    reader = ReportReader()
    message = encode_report("a1", 1, 0.0, 0.0, [sample(node())])
    first, again = (reader.read(message.SerializeToString(), 0.0).samples[0] for _ in range(2))
    assert first.node is again.node


def test_health_that_did_not_change_is_the_same_object_again() -> None:
    reader = ReportReader()
    healths = []
    for celsius, age_s in ((50.0, 0.1), (50.0, 0.3), (51.0, 0.1)):
        health = HealthSignals(temperature_celsius=measured(celsius))
        gpu = GpuSample("GPU-0", health=health, health_age_s=age_s)
        message = encode_report("a1", 1, 0.0, 0.0, [dataclasses.replace(SAMPLE, gpus=(gpu, gpu))])
        got = reader.read(message.SerializeToString(), 0.0).samples[0].gpus
        assert [item.health_age_s for item in got] == [age_s, age_s]
        healths += [item.health for item in got]
    assert len({id(health) for health in healths[:4]}) == 1
    assert healths[4] is healths[5] and healths[4] != healths[0]


def test_health_that_is_none_is_refused_with_its_report() -> None:
    message = encode_sample(SAMPLE)
    message.gpus[0].health = b"\xff\xff"
    report = telemetry_pb2.TelemetryReport(agent="a1", nodes=[message])
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
    message = encode_sample(sample(node()))
    message.net_bytes_per_s.state = state  # type: ignore[assignment]
    message.net_bytes_per_s.value = value
    report = telemetry_pb2.TelemetryReport(agent="a1", nodes=[message])
    assert ReportReader().read(report.SerializeToString(), 0.0).samples[0].net_bytes_per_s == ABSENT


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
    bad, good = encode_sample(sample(node("bad"))), encode_sample(sample(node("good")))
    setattr(bad.node, field, value)
    report = telemetry_pb2.TelemetryReport(agent="a1", nodes=[bad, good])
    got = ReportReader().read(report.SerializeToString(), 0.0)
    assert [sample.node.name for sample in got.samples] == ["good"]
    assert len(got.refused) == 1 and reason in got.refused[0]
    assert got.refused[0].isprintable() and len(got.refused[0]) <= MAX_REASON_LENGTH


def test_a_model_that_cannot_be_is_refused_with_its_node() -> None:
    bad = encode_sample(sample(node("bad")))
    bad.node.models[0].weight_bits = 0
    got = ReportReader().read(
        telemetry_pb2.TelemetryReport(agent="a1", nodes=[bad]).SerializeToString(), 0.0
    )
    assert got.samples == () and "models.0.weight_bits" in got.refused[0]


@pytest.mark.parametrize(
    ("address", "as_envoy_prints_it"),
    [
        ("192.0.2.1:08080", "192.0.2.1:8080"),
        ("2001:DB8:0::1:8080", "[2001:db8::1]:8080"),
        ("[2001:db8:0:0:0:0:0:1]:80", "[2001:db8::1]:80"),
        ("[::ffff:192.0.2.1]:80", "[::ffff:192.0.2.1]:80"),
    ],
)
def test_an_address_is_kept_as_envoy_prints_it(address: str, as_envoy_prints_it: str) -> None:
    message = encode_sample(sample(node(address=address)))
    got = ReportReader().read(
        telemetry_pb2.TelemetryReport(agent="a1", nodes=[message]).SerializeToString(), 0.0
    )
    assert got.samples[0].node.address == as_envoy_prints_it


def test_a_node_is_checked_once_while_it_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def counted(message: roster_pb2.Node) -> Node:
        checked.append(message.name)
        return decode_node(message)

    monkeypatch.setattr(report_module, "decode_node", counted)
    bad = encode_sample(sample(node("bad", gpu_count=0)))
    report = telemetry_pb2.TelemetryReport(
        agent="a1", nodes=[bad, encode_sample(sample(node("good")))]
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
