"""Reports of agents with something in them that no agent of ours would write."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from isocost.model import NodeSample
from isocost.sample_rows import GPU_SIGNALS, SIGNAL_BYTES
from isocost.telemetry.report import encode_report
from isocost.v1 import roster_pb2, telemetry_pb2


def with_nodes(
    change: Callable[[roster_pb2.Node], None], *samples: NodeSample
) -> telemetry_pb2.TelemetryReport:
    """A report of these, the first node of which is changed."""
    report = encode_report("a1", 1, 0.0, 0.0, samples)
    listed = telemetry_pb2.NodeList.FromString(report.nodes)
    change(listed.nodes[0].node)
    report.nodes = listed.SerializeToString()
    return report


def put_signal(rows: bytes, place: int, state: int, value: float, age_ms: int = 0) -> bytes:
    """The first of the rows with another signal in this place."""
    at = place * SIGNAL_BYTES
    return rows[:at] + pack("<BId", state, age_ms, value) + rows[at + SIGNAL_BYTES :]


def put_gpu_signal(rows: bytes, name: str, state: int, value: float, age_ms: int = 0) -> bytes:
    return put_signal(rows, GPU_SIGNALS.index(name), state, value, age_ms)
