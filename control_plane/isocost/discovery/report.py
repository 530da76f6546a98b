"""What agents tell, as frozen types. Other machines wrote it: nothing is taken on trust."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from isocost.config import Name, NodeSettings
from isocost.config_file import parse
from isocost.discovery.address import canonical
from isocost.errors import ConfigError, TelemetryError
from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    Node,
    NodeSample,
    Signal,
    SignalState,
)
from isocost.v1 import roster_pb2, telemetry_pb2

#: Unix seconds have ten digits; what has more than this is no start.
MAX_EPOCH_DIGITS = 12
#: A refused value may be long, the reason is read by people.
MAX_REASON_LENGTH = 500

_NAME: TypeAdapter[str] = TypeAdapter(Name)


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One report. ``refused`` says for each node that could not be used, why.

    The times are those of the agent's clocks.
    """

    agent: str
    sequence: int
    wall_unix_s: float
    monotonic_s: float
    samples: tuple[NodeSample, ...]
    refused: tuple[str, ...] = ()
    #: The agent's clock less this machine's, the way between them included.
    clock_offset_s: float = 0.0

    def follows(self, earlier: AgentReport) -> bool:
        """Not one that was overtaken or came twice: a restarted agent counts from the beginning
        again, but a clock of its machine went on.
        """
        return (
            self.sequence > earlier.sequence
            or self.monotonic_s > earlier.monotonic_s
            or self.wall_unix_s > earlier.wall_unix_s
        )


class ReportReader:
    """Reads the reports of one stream. Nodes are read once: they rarely change between reports."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, Node | str] = {}

    def read(self, report: telemetry_pb2.TelemetryReport, unix_s: float) -> AgentReport:
        """A report that arrived at ``unix_s``. TelemetryError: the agent has no name that can be
        shown.
        """
        try:
            _NAME.validate_python(report.agent)
        except ValidationError as error:
            raise TelemetryError(f"{report.agent!r:.200} is no agent's name") from error
        samples: list[NodeSample] = []
        refused: list[str] = []
        nodes: dict[bytes, Node | str] = {}
        for message in report.nodes:
            key = message.node.SerializeToString()
            node = nodes[key] = self._nodes.get(key) or _node_or_reason(message.node)
            if isinstance(node, str):
                refused.append(node)
            else:
                samples.append(_sample(node, message))
        self._nodes = nodes
        return AgentReport(
            agent=report.agent,
            sequence=report.sequence,
            wall_unix_s=report.wall_unix_ms / 1e3,
            monotonic_s=report.monotonic_ms / 1e3,
            samples=tuple(samples),
            refused=tuple(refused),
            clock_offset_s=report.wall_unix_ms / 1e3 - unix_s,
        )


def _node_or_reason(node: roster_pb2.Node) -> Node | str:
    try:
        return decode_node(node)
    except TelemetryError as error:
        return str(error)


def decode_node(node: roster_pb2.Node) -> Node:
    """The node, with its address as Envoy prints it. TelemetryError: a value that nobody may
    write into a configuration either, or no instance of that name.
    """
    data = {
        "name": node.name,
        "address": node.address,
        "rack": node.rack,
        "host": node.host,
        "gpu_kind": node.gpu_kind,
        "gpu_count": node.gpu_count,
        "models": [_model(model) for model in node.models],
        "min_input_tokens": node.min_input_tokens,
        "max_input_tokens": node.max_input_tokens,
    }
    try:
        settings = parse(NodeSettings, data, "node")
        address = canonical(settings.address)
    except ConfigError as error:
        raise _refused(node, "; ".join(map(str, error.fields))) from error
    except ValueError as error:
        raise _refused(node, f"address: {node.address!r}: {error}") from error
    return replace(settings.node(_start_epoch(node)), address=address)


def _start_epoch(node: roster_pb2.Node) -> int:
    name, _, epoch = node.instance_id.rpartition("@")
    usable = epoch.isascii() and epoch.isdecimal() and len(epoch) <= MAX_EPOCH_DIGITS
    if name != node.name or not usable:
        raise _refused(node, f"{node.instance_id!r} is not name@start-epoch")
    return int(epoch)


def _refused(node: roster_pb2.Node, reason: str) -> TelemetryError:
    return TelemetryError(f"node {node.name!r}: {reason}"[:MAX_REASON_LENGTH])


def _model(model: roster_pb2.Model) -> dict[str, object]:
    return {
        "name": model.name,
        "aliases": list(model.aliases),
        "weight_bits": model.weight_bits,
        "weight_bytes": model.weight_bytes,
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "max_length_tokens": model.max_length_tokens,
        "adapters": list(model.adapters),
    }


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
            _signal(engine.steps_total),
        ),
        net_bytes_per_s=_signal(sample.net_bytes_per_s),
        clock_offset_s=sample.clock_offset_ms / 1e3,
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
