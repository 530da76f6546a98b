"""What an agent tells the control plane: samples as the messages of isocost.v1.

The way back is discovery.report: each side of the stream needs only its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache

from isocost.model import HealthSignals, NodeSample, Signal, SignalState
from isocost.node_message import encode_node
from isocost.sample_rows import engine_row, gpu_row, node_row
from isocost.v1 import telemetry_pb2

_UNKNOWN = {
    state: telemetry_pb2.Signal(state=int(state))  # type: ignore[arg-type]
    for state in (SignalState.ABSENT, SignalState.UNSUPPORTED)
}
#: More than a machine has.
_GPUS = 256


def encode_report(
    agent: str,
    sequence: int,
    wall_unix_s: float,
    monotonic_s: float,
    samples: Sequence[NodeSample],
) -> telemetry_pb2.TelemetryReport:
    """A report that is complete: it can be the first of a stream."""
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    return telemetry_pb2.TelemetryReport(
        agent=agent,
        sequence=sequence,
        wall_unix_ms=round(wall_unix_s * 1e3),
        monotonic_ms=round(monotonic_s * 1e3),
        nodes=telemetry_pb2.NodeList(
            nodes=[
                telemetry_pb2.NodeEntry(
                    node=encode_node(sample.node), gpu_uuids=[gpu.uuid for gpu in sample.gpus]
                )
                for sample in samples
            ]
        ).SerializeToString(),
        health=telemetry_pb2.HealthList(
            gpus=[b"" if gpu.health is None else _health(gpu.health) for gpu in gpus]
        ).SerializeToString(),
        node_rows=b"".join(map(node_row, samples)),
        gpu_rows=b"".join(map(gpu_row, gpus)),
        by_model=[
            telemetry_pb2.ModelEngine(node=place, model=model, row=engine_row(engine))
            for place, sample in enumerate(samples)
            for model, engine in sample.by_model
        ],
    )


class StreamMemory:
    """What the receiver of one stream has of its agent already: that is not told again."""

    def __init__(self) -> None:
        self._told: dict[str, bytes] = {}

    def shorten(self, report: telemetry_pb2.TelemetryReport) -> None:
        """Take what is as in the report before out of one that is going to be sent."""
        for name in ("nodes", "health"):
            content = getattr(report, name)
            if self._told.get(name) == content:
                report.ClearField(name)
            self._told[name] = content


@lru_cache(_GPUS)
def _health(health: HealthSignals) -> bytes:
    """Remembered: it is mostly the same report after report."""
    signals = {
        field.name: _signal(getattr(health, field.name))
        for field in dataclasses.fields(health)
        if field.name != "xids"
    }
    xids = [
        telemetry_pb2.Xid(
            number=xid.number, count=xid.count, last_monotonic_ms=round(xid.last_s * 1e3)
        )
        for xid in health.xids
    ]
    return telemetry_pb2.HealthSignals(**signals, xids=xids).SerializeToString()


def _signal(signal: Signal) -> telemetry_pb2.Signal:
    if not signal.known:
        return _UNKNOWN[signal.state]
    return telemetry_pb2.Signal(
        state=int(signal.state),  # type: ignore[arg-type]
        value=signal.value,
        age_ms=round(signal.age_s * 1e3),
    )
