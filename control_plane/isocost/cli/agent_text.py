"""One sample of an agent as tables and as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from isocost.agent import MachineSample
from isocost.cli.columns import aligned
from isocost.config import AgentConfig, AgentNodeSettings
from isocost.model import Signal, SignalState
from isocost.node_signals import node_signals
from isocost.output import printable
from isocost.telemetry.nvml.process import Gpu
from isocost.telemetry.nvml.sample import total

_GB, _MB = 1e9, 1e6
_NODE_COLUMNS = (
    *("NODE", "INSTANCE", "RUNNING", "WAITING", "KV_USAGE", "GPUS", "FREE_GB", "GPU_USE"),
    *("NET_MB/S", "CUDA_HANDLES"),
)
_GPU_COLUMNS = (
    *("GPU", "NODE", "USED_GB", "RESERVED_GB", "TOTAL_GB", "USE", "PCIE", "PCIE_MB/S", "NVLINKS"),
    *("CELSIUS", "WATTS", "ECC", "REMAP", "THROTTLE", "PROCESSES", "XIDS"),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """The nodes whose engine does not answer, and the configured GPUs, each with its node, of which
    not even the memory's size was read.
    """

    silent: tuple[str, ...]
    unread: tuple[tuple[str, str], ...]


def missing(config: AgentConfig, sample: MachineSample) -> Missing:
    """What the configuration promises and the sample does not have."""
    answering = {node.node.name for node in sample.nodes if node.engine_up}
    sizes = {gpu.identity.uuid: gpu.load.memory_total_bytes for gpu in sample.gpus}
    read = {
        uuid for uuid, size in sizes.items() if size.known or size.state is SignalState.UNSUPPORTED
    }
    return Missing(
        silent=tuple(node.name for node in config.nodes if node.name not in answering),
        unread=tuple(
            (node.name, uuid) for node in config.nodes for uuid in node.gpus if uuid not in read
        ),
    )


def plain(config: AgentConfig, sample: MachineSample, lacks: Missing) -> dict[str, object]:
    """All that is known, each signal with its state."""
    return {
        "agent": config.name,
        "wall_unix_s": sample.wall_unix_s,
        "nodes": [
            {
                "name": node.node.name,
                "instance_id": node.node.instance_id,
                **node_signals(node, age_s=0.0),
            }
            for node in sample.nodes
        ],
        "silent": list(lacks.silent),
        "unread": [{"node": node, "gpu": uuid} for node, uuid in lacks.unread],
        "gpus": [_gpu_plain(gpu) for gpu in sample.gpus],
    }


def tables(config: AgentConfig, sample: MachineSample, lacks: Missing) -> str:
    """The nodes, the GPUs, and what is missing."""
    rows = (_node_row(node, sample, lacks) for node in config.nodes)
    lines = aligned([_NODE_COLUMNS, *rows])
    if sample.gpus:
        nodes = {uuid: node.name for node in config.nodes for uuid in node.gpus}
        lines += ["", *aligned([_GPU_COLUMNS, *(_gpu_row(gpu, nodes) for gpu in sample.gpus)])]
    lines += [f"{name}: its engine does not answer" for name in lacks.silent]
    lines += [f"{name}: {uuid}: not read" for name, uuid in lacks.unread]
    return printable("\n".join(lines))


def _node_row(settings: AgentNodeSettings, sample: MachineSample, lacks: Missing) -> list[str]:
    if settings.name in lacks.silent:
        return [settings.name, "down"] + ["-"] * (len(_NODE_COLUMNS) - 2)
    (node,) = (node for node in sample.nodes if node.node.name == settings.name)
    gpus, engine = node.gpus, node.engine
    unread = sum(name == settings.name for name, _ in lacks.unread)
    free = total([gpu.vram_free_bytes for gpu in gpus])
    use = total([gpu.gpu_utilisation for gpu in gpus])
    handles = _text(node.cuda_handles)
    return [
        settings.name,
        node.node.instance_id,
        _text(engine.running),
        _text(engine.waiting),
        _text(engine.kv_usage),
        f"{len(gpus) - unread}/{len(gpus)}" if unread else str(len(gpus)),
        _text(free, _GB) if gpus else "-",
        _text(use, len(gpus)) if gpus else "-",
        _text(node.net_bytes_per_s, _MB),
        f"{handles} dropped" if node.cuda_handles_dropped else handles,
    ]


def _gpu_row(gpu: Gpu, nodes: Mapping[str, str]) -> list[str]:
    load, condition = gpu.load, gpu.condition
    uuid = gpu.identity.uuid
    row = [
        f"{uuid} LOST" if gpu.lost else uuid,
        nodes.get(uuid, "-"),
        _text(load.memory_used_bytes, _GB),
        _text(load.memory_reserved_bytes, _GB),
        _text(load.memory_total_bytes, _GB),
        _text(load.gpu_utilisation),
    ]
    if condition is None:
        return row + ["-"] * (len(_GPU_COLUMNS) - len(row))
    up = sum(link.active.known and link.active.value > 0 for link in condition.links)
    rates = (condition.pcie_tx_bytes_per_s, condition.pcie_rx_bytes_per_s)
    return [
        *row,
        f"gen {_text(condition.pcie_generation)} x{_text(condition.pcie_width)}",
        "/".join(_text(rate, _MB) for rate in rates),
        f"{up}/{len(condition.links)}",
        _text(condition.temperature_celsius),
        _text(condition.power_watts),
        _text(condition.ecc_uncorrected),
        _text(condition.row_remap_pending),
        _mask(condition.clocks_event_reasons),
        _text(condition.compute_processes),
        " ".join(f"{xid.number}x{xid.count}" for xid in gpu.xids) or "-",
    ]


def _text(signal: Signal, unit: float = 1.0) -> str:
    if not signal.known:
        return signal.state.name.lower()
    number = f"{signal.value / unit:.4g}"
    return number if signal.state is SignalState.MEASURED else f"{number} stale"


def _mask(signal: Signal) -> str:
    return f"{int(signal.value):#x}" if signal.known else signal.state.name.lower()


def _gpu_plain(gpu: Gpu) -> dict[str, object]:
    return {
        **_plain(gpu.identity),
        "lost": gpu.lost,
        **_own(gpu.load),
        "condition": None if gpu.condition is None else _own(gpu.condition),
        "xids": [{"xid": xid.number, "count": xid.count} for xid in gpu.xids],
    }


def _own(part: object) -> dict[str, object]:
    """What is not told of the GPU as a whole."""
    return {key: value for key, value in _plain(part).items() if key not in ("identity", "lost")}


def _plain(holder: object) -> dict[str, object]:
    """A frozen type as JSON: fields by name, signals with state, value and age."""
    return {
        field.name: _value(getattr(holder, field.name))
        for field in dataclasses.fields(holder)  # type: ignore[arg-type]
    }


def _value(value: object) -> object:
    if isinstance(value, Signal):
        state = value.state.name.lower()
        known = {"value": value.value, "age_s": value.age_s} if value.known else {}
        return {"state": state, **known}
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return _plain(value) if dataclasses.is_dataclass(value) else value
