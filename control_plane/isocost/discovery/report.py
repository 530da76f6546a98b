"""What agents tell, as frozen types. Other machines wrote it: nothing is taken on trust."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass

from isocost.errors import TelemetryError
from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    Model,
    Node,
    NodeSample,
    Signal,
    SignalState,
)
from isocost.v1 import roster_pb2, telemetry_pb2


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One report. ``refused`` says for each node that could not be used, why."""

    agent: str
    sequence: int
    wall_unix_s: float
    monotonic_s: float
    samples: tuple[NodeSample, ...]
    refused: tuple[str, ...] = ()


class ReportReader:
    """Reads the reports of one stream. Nodes are read once: they rarely change between reports."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, Node] = {}

    def read(self, report: telemetry_pb2.TelemetryReport) -> AgentReport:
        samples: list[NodeSample] = []
        refused: list[str] = []
        nodes: dict[bytes, Node] = {}
        for message in report.nodes:
            key = message.node.SerializeToString()
            try:
                nodes[key] = self._nodes.get(key) or decode_node(message.node)
            except TelemetryError as error:
                refused.append(str(error))
                continue
            samples.append(_sample(nodes[key], message))
        self._nodes = nodes
        return AgentReport(
            agent=report.agent,
            sequence=report.sequence,
            wall_unix_s=report.wall_unix_ms / 1e3,
            monotonic_s=report.monotonic_ms / 1e3,
            samples=tuple(samples),
            refused=tuple(refused),
        )


def decode_node(node: roster_pb2.Node) -> Node:
    """TelemetryError: no name, no instance of that name, or an address that is not ip:port."""
    if not node.name or not node.instance_id.startswith(f"{node.name}@"):
        raise TelemetryError(f"node {node.name!r}: {node.instance_id!r} is not name@start-epoch")
    if not _is_endpoint(node.address):
        raise TelemetryError(f"node {node.name!r}: {node.address!r} is not ip:port")
    return Node(
        name=node.name,
        instance_id=node.instance_id,
        address=node.address,
        rack=node.rack,
        host=node.host,
        gpu_kind=node.gpu_kind,
        gpu_count=node.gpu_count,
        models=tuple(_model(model) for model in node.models),
    )


def _is_endpoint(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return port.isdecimal() and 0 < int(port) < 65536


def _model(model: roster_pb2.Model) -> Model:
    return Model(
        name=model.name,
        aliases=tuple(model.aliases),
        weight_bits=model.weight_bits,
        weight_bytes=model.weight_bytes,
        kv_bytes_per_token=model.kv_bytes_per_token,
        max_length_tokens=model.max_length_tokens,
    )


def _sample(node: Node, sample: telemetry_pb2.NodeSample) -> NodeSample:
    engine = sample.engine
    return NodeSample(
        node=node,
        engine_up=sample.engine_up,
        gpus=tuple(
            GpuSample(
                gpu.uuid,
                _signal(gpu.vram_total_bytes),
                _signal(gpu.vram_free_bytes),
                _signal(gpu.gpu_utilisation),
                _signal(gpu.pcie_bytes_per_s),
                _signal(gpu.nvlink_active_fraction),
            )
            for gpu in sample.gpus
        ),
        engine=EngineSample(
            _signal(engine.running),
            _signal(engine.waiting),
            _signal(engine.kv_usage),
            _signal(engine.kv_pool_tokens),
            _signal(engine.prompt_tokens_total),
            _signal(engine.generation_tokens_total),
        ),
        net_bytes_per_s=_signal(sample.net_bytes_per_s),
    )


def _signal(signal: telemetry_pb2.Signal) -> Signal:
    """No signal here is ever negative or infinite; one that is, or has a state of a later version
    of the protocol, is not known.
    """
    state, value = signal.state, signal.value
    if state == telemetry_pb2.SIGNAL_STATE_UNSUPPORTED:
        return UNSUPPORTED
    if not 0.0 <= value < math.inf:
        return ABSENT
    if state == telemetry_pb2.SIGNAL_STATE_MEASURED:
        return Signal(SignalState.MEASURED, value, signal.age_ms / 1e3)
    if state == telemetry_pb2.SIGNAL_STATE_STALE:
        return Signal(SignalState.STALE, value, signal.age_ms / 1e3)
    return ABSENT
