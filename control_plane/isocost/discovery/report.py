"""What agents tell, as frozen types. Other machines wrote it: nothing is taken on trust."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.message import DecodeError, Message
from pydantic import TypeAdapter, ValidationError

from isocost.config import NodeSettings
from isocost.config_fields import Name
from isocost.config_file import parse
from isocost.discovery.address import canonical
from isocost.errors import ConfigError, TelemetryError
from isocost.model import MAX_EPOCH_DIGITS, HealthSignals, Node, Signal, Xid
from isocost.sample_rows import ENGINE_ROW, GPU_ROW, NODE_ROW
from isocost.score.block import Block, Entry, Health, HealthOfGpus, known_signal
from isocost.score.hardware import suspicions
from isocost.v1 import roster_pb2, telemetry_pb2

#: A refused value may be long, the reason is read by people.
MAX_REASON_LENGTH = 500

_HEALTH_SIGNALS = tuple(
    field.name for field in dataclasses.fields(HealthSignals) if field.name != "xids"
)
_NAME: TypeAdapter[str] = TypeAdapter(Name)
#: GPUs of a kind that are well say the same, but for some 40 temperatures.
_HEALTH_KEPT = 1024


class AgentReport(NamedTuple):
    """One report. ``refused`` says for each node that could not be used, why.

    The times are those of the agent's clocks.
    """

    agent: str
    sequence: int
    wall_unix_s: float
    monotonic_s: float
    block: Block
    refused: tuple[str, ...] = ()
    #: The agent's clock less this machine's, the way between them included.
    clock_offset_s: float = 0.0
    #: What it came on: a later stream has a greater number.
    stream: int = 0

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
    """Reads the reports of one stream. Nodes and the health of GPUs are told, and read, when they
    change. The numbers are kept as they come, see Block.
    """

    def __init__(self, stream: int = 0) -> None:
        """``stream``: its number, greater than that of every earlier one."""
        self._stream = stream
        self._agent: str | None = None
        #: The last list that was told, and what it says.
        self._listed: bytes | None = None
        self._nodes: dict[bytes, Node | str] = {}
        self._entries: tuple[Entry, ...] = ()
        self._refused: tuple[str, ...] = ()
        self._rows = self._gpus = 0
        self._health = HealthOfGpus()
        self._by_content: dict[bytes, Health] = {}

    def read(self, data: bytes, unix_s: float) -> AgentReport:
        """A TelemetryReport that arrived at ``unix_s``. TelemetryError: it is none, the agent has
        no name that can be shown, its rows are not those of its nodes, or what tells of a GPU's
        health is none of it.
        """
        report = telemetry_pb2.TelemetryReport()
        _merge(report, data, "not a TelemetryReport")
        if (agent := report.agent) != self._agent:
            self._agent = _checked_name(agent)
        if report.HasField("nodes") and report.nodes != self._listed:
            self._read_nodes(report.nodes)
        if report.HasField("health"):
            self._read_health(report.health)
        wall_s = report.wall_unix_ms / 1e3
        monotonic_s = report.monotonic_ms / 1e3
        return AgentReport(
            agent,
            report.sequence,
            wall_s,
            monotonic_s,
            self._block(report, monotonic_s),
            self._refused,
            wall_s - unix_s,
            self._stream,
        )

    def _block(self, report: telemetry_pb2.TelemetryReport, taken_s: float) -> Block:
        if self._listed is None:
            raise TelemetryError("the first report of a stream does not name its nodes")
        node_rows, gpu_rows = report.node_rows, report.gpu_rows
        node_bytes, gpu_bytes = self._rows * NODE_ROW.size, self._gpus * GPU_ROW.size
        if len(node_rows) != node_bytes or len(gpu_rows) != gpu_bytes:
            raise TelemetryError(
                f"its rows have {len(node_rows)} and {len(gpu_rows)} bytes, where those of "
                f"{self._rows} nodes and {self._gpus} GPUs have {node_bytes} and {gpu_bytes}"
            )
        if len(self._health.told) != self._gpus:
            raise TelemetryError(
                f"it tells the health of {len(self._health.told)} of {self._gpus} GPUs"
            )
        models = _models(report, self._rows) if report.by_model else {}
        return Block(self._entries, taken_s, node_rows, gpu_rows, self._health, models)

    def _read_nodes(self, content: bytes) -> None:
        listed = telemetry_pb2.NodeList()
        _merge(listed, content, "its nodes are no NodeList")
        nodes, refused = dict[bytes, Node | str](), list[str]()
        entries, end = list[Entry](), 0
        for row, item in enumerate(listed.nodes):
            key = item.node.SerializeToString()
            node = nodes[key] = self._nodes.get(key) or _node_or_reason(item.node)
            first, end = end, end + len(item.gpu_uuids)
            if isinstance(node, str):
                refused.append(node)
            else:
                entries.append(Entry(node, tuple(item.gpu_uuids), row, first, end))
        self._listed, self._nodes = content, nodes
        self._entries, self._refused = tuple(entries), tuple(refused)
        self._rows, self._gpus = len(listed.nodes), end

    def _read_health(self, content: bytes) -> None:
        listed = telemetry_pb2.HealthList()
        _merge(listed, content, "the health of its GPUs is no HealthList")
        # What did not change is the same object again, however many others there are.
        known = {told: self._by_content.get(told) or _health(told) for told in listed.gpus if told}
        health = tuple(known.get(told) for told in listed.gpus)
        unwell = (place for place, told in enumerate(health) if told and not told.well)
        self._health, self._by_content = HealthOfGpus(health, tuple(unwell)), known


def _merge(message: Message, data: bytes, otherwise: str) -> None:
    """Read ``data`` into the message; TelemetryError that says ``otherwise`` if it is none."""
    try:
        message.MergeFromString(data)
    except DecodeError as error:
        raise TelemetryError(otherwise) from error


def _models(report: telemetry_pb2.TelemetryReport, rows: int) -> dict[int, list[tuple[str, bytes]]]:
    by_row: dict[int, list[tuple[str, bytes]]] = {}
    for item in report.by_model:
        if len(item.row) != ENGINE_ROW.size or item.node >= rows:
            raise TelemetryError(f"what it tells of the model {item.model!r:.200} is no engine's")
        by_row.setdefault(item.node, []).append((item.model, item.row))
    return by_row


def _checked_name(agent: str) -> str:
    try:
        return _NAME.validate_python(agent)
    except ValidationError as error:
        raise TelemetryError(f"{agent!r:.200} is no agent's name") from error


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
    except ConfigError as error:
        raise _refused(node, "; ".join(map(str, error.fields))) from error
    return replace(settings.node(_start_epoch(node)), address=canonical(settings.address))


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


@lru_cache(_HEALTH_KEPT)
def _health(data: bytes) -> Health:
    try:
        message = telemetry_pb2.HealthSignals.FromString(data)
    except DecodeError as error:
        raise TelemetryError("the health of a GPU is no HealthSignals") from error
    xids = tuple(Xid(xid.number, xid.count, xid.last_monotonic_ms / 1e3) for xid in message.xids)
    signals = HealthSignals(
        **{name: _signal(getattr(message, name)) for name in _HEALTH_SIGNALS}, xids=xids
    )
    return Health(signals, well=not suspicions(signals))


def _signal(signal: telemetry_pb2.Signal) -> Signal:
    return known_signal(signal.state, signal.age_ms, signal.value)
