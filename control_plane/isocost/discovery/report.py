"""What agents tell, as frozen types. Other machines wrote it: nothing is taken on trust."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from google.protobuf.message import DecodeError
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
    HealthSignals,
    Node,
    NodeSample,
    Signal,
    SignalState,
    Xid,
)
from isocost.score.hardware import suspicions
from isocost.score.rows import ENGINE_SIGNALS, GPU_SIGNALS, NODE_SIGNALS, ReadSample, packed
from isocost.v1 import roster_pb2, telemetry_pb2

#: Unix seconds have ten digits; what has more than this is no start.
MAX_EPOCH_DIGITS = 12
#: A refused value may be long, the reason is read by people.
MAX_REASON_LENGTH = 500

_HEALTH_SIGNALS = tuple(
    field.name for field in dataclasses.fields(HealthSignals) if field.name != "xids"
)
_NAME: TypeAdapter[str] = TypeAdapter(Name)
#: GPUs of a kind that are well say the same, but for some 40 temperatures.
_HEALTH_KEPT = 1024

_KNOWN = (telemetry_pb2.SIGNAL_STATE_MEASURED, telemetry_pb2.SIGNAL_STATE_STALE)
#: To look a member of an enum up takes as long as to make a signal.
_MEASURED, _STALE = SignalState.MEASURED, SignalState.STALE
_engine_signals = attrgetter(*ENGINE_SIGNALS)
_node_signals = attrgetter(*NODE_SIGNALS)
_gpu_signals = attrgetter(*GPU_SIGNALS)
_parts = attrgetter("state", "value", "age_ms")


class AgentReport(NamedTuple):
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


class _Health(NamedTuple):
    """A GPU's health; ``well``: the health table has nothing on it, at no time."""

    signals: HealthSignals
    well: bool


#: What a sample reads when somebody asks for it.
_SIGNALS = ("net_bytes_per_s", "cuda_handles", "kv_cache_age_s")
_LATER = ("gpus", "engine", *_SIGNALS)


class _WireSample(ReadSample):
    """Keeps the report that it came in as bytes: a message is many objects, which would all be
    let go of by the next tick.
    """

    __slots__ = ("_health", "_place", "_report")

    _report: bytes
    _place: int
    _health: Mapping[bytes, _Health]

    def __init__(
        self,
        node: Node,
        message: telemetry_pb2.NodeSample,
        taken_s: float,
        rows: tuple[bytes, bytes, bool],
        report: bytes,
        place: int,
        health: Mapping[bytes, _Health],
    ) -> None:
        put = object.__setattr__
        put(self, "node", node)
        put(self, "engine_up", message.engine_up)
        put(self, "engine_silent", message.engine_silent)
        put(self, "clock_offset_s", message.clock_offset_ms / 1e3)
        put(self, "cuda_handles_dropped", message.cuda_handles_dropped)
        put(self, "by_model", _by_model(message) if message.by_model else ())
        put(self, "taken_s", taken_s)
        node_row, gpu_rows, well = rows
        put(self, "node_row", node_row)
        put(self, "gpu_rows", gpu_rows)
        put(self, "well", well)
        put(self, "_report", report)
        put(self, "_place", place)
        put(self, "_health", health)

    def __getattr__(self, name: str) -> object:
        """Called for what is not there yet."""
        if name not in _LATER:
            raise AttributeError(name)
        message = telemetry_pb2.TelemetryReport.FromString(self._report).nodes[self._place]
        put = object.__setattr__
        if name == "gpus":
            put(self, "gpus", _gpus(message, self._health))
        else:
            put(self, "engine", _engine(message.engine))
            for signal in _SIGNALS:
                put(self, signal, _signal(getattr(message, signal)))
        return getattr(self, name)


class ReportReader:
    """Reads the reports of one stream. Nodes and the health of GPUs are read once: they rarely
    change between reports. Of the rest only the numbers are read at once, see ReadSample.
    """

    def __init__(self) -> None:
        self._agent: str | None = None
        self._nodes: dict[bytes, Node | str] = {}
        self._health: dict[bytes, _Health] = {}

    def read(self, data: bytes, unix_s: float) -> AgentReport:
        """A TelemetryReport that arrived at ``unix_s``. TelemetryError: it is none, the agent has
        no name that can be shown, or what tells of a GPU's health is none of it.
        """
        try:
            report = telemetry_pb2.TelemetryReport.FromString(data)
        except DecodeError as error:
            raise TelemetryError("not a TelemetryReport") from error
        agent, taken_s, wall_s = report.agent, report.monotonic_ms / 1e3, report.wall_unix_ms / 1e3
        if agent != self._agent:
            self._agent = _checked_name(agent)
        samples: list[NodeSample] = []
        refused: list[str] = []
        nodes: dict[bytes, Node | str] = {}
        health: dict[bytes, _Health] = {}
        for place, message in enumerate(report.nodes):
            key = message.node.SerializeToString()
            node = nodes[key] = self._nodes.get(key) or _node_or_reason(message.node)
            for gpu in message.gpus:
                if (told := gpu.health) and told not in health:
                    health[told] = self._health.get(told) or _health(told)
            if isinstance(node, str):
                refused.append(node)
            else:
                rows = _rows(message, health)
                samples.append(_WireSample(node, message, taken_s, rows, data, place, health))
        self._nodes, self._health = nodes, health
        return AgentReport(
            agent=agent,
            sequence=report.sequence,
            wall_unix_s=wall_s,
            monotonic_s=taken_s,
            samples=tuple(samples),
            refused=tuple(refused),
            clock_offset_s=wall_s - unix_s,
        )


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


def _rows(
    sample: telemetry_pb2.NodeSample, health: Mapping[bytes, _Health]
) -> tuple[bytes, bytes, bool]:
    """Of a ReadSample: the numbers of the node and of its GPUs, and whether it is well."""
    own = (*_engine_signals(sample.engine), *_node_signals(sample))
    of_gpus = chain.from_iterable(map(_gpu_signals, sample.gpus))
    well = not sample.cuda_handles_dropped
    for gpu in sample.gpus:
        links, data = gpu.nvlink_active_fraction, gpu.health
        links_up = links.value >= 1.0 or links.state not in _KNOWN
        well = well and links_up and not gpu.lost and (not data or health[data].well)
    # All of it in C: this is the most of what it takes to receive a report.
    return (
        packed(*chain.from_iterable(map(_parts, own))),
        packed(*chain.from_iterable(map(_parts, of_gpus))),
        well,
    )


def _gpus(
    sample: telemetry_pb2.NodeSample, health: Mapping[bytes, _Health]
) -> tuple[GpuSample, ...]:
    return tuple(
        GpuSample(
            gpu.uuid,
            _signal(gpu.vram_total_bytes),
            _signal(gpu.vram_free_bytes),
            _signal(gpu.gpu_utilisation),
            _signal(gpu.pcie_bytes_per_s),
            _signal(gpu.nvlink_active_fraction),
            gpu.lost,
            health[gpu.health].signals if gpu.health else None,
            gpu.health_age_ms / 1e3,
        )
        for gpu in sample.gpus
    )


def _engine(engine: telemetry_pb2.EngineSample) -> EngineSample:
    return EngineSample(
        _signal(engine.running),
        _signal(engine.waiting),
        _signal(engine.kv_usage),
        _signal(engine.kv_pool_tokens),
        _signal(engine.prompt_tokens_total),
        _signal(engine.generation_tokens_total),
        _signal(engine.steps_total),
    )


def _by_model(sample: telemetry_pb2.NodeSample) -> tuple[tuple[str, EngineSample], ...]:
    return tuple((item.model, _engine(item.engine)) for item in sample.by_model)


@lru_cache(_HEALTH_KEPT)
def _health(data: bytes) -> _Health:
    try:
        message = telemetry_pb2.HealthSignals.FromString(data)
    except DecodeError as error:
        raise TelemetryError("the health of a GPU is no HealthSignals") from error
    xids = tuple(Xid(xid.number, xid.count, xid.last_monotonic_ms / 1e3) for xid in message.xids)
    signals = HealthSignals(
        **{name: _signal(getattr(message, name)) for name in _HEALTH_SIGNALS}, xids=xids
    )
    return _Health(signals, well=not suspicions(signals))


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
        return Signal(_MEASURED, value, signal.age_ms / 1e3)
    if state == telemetry_pb2.SIGNAL_STATE_STALE:
        return Signal(_STALE, value, signal.age_ms / 1e3)
    return ABSENT
