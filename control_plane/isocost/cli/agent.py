"""`isocost agent`: reports the nodes of one GPU machine to the control plane."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isocost.config import AgentConfig
    from isocost.model import NodeSample, Signal

SUMMARY = "report the nodes of one GPU machine to the control plane"
EXAMPLES = """  isocost agent --config /etc/isocost/agent.yaml
  isocost agent --config agent.yaml --once
  isocost agent --config agent.yaml --once --json | jq '.nodes[].engine.kv_usage'
"""

_COLUMNS = ("NODE", "INSTANCE", "RUNNING", "WAITING", "KV_USAGE", "GPUS", "FREE_GB", "GPU_USE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="YAML configuration"
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="sample once, print it and send nothing; exit code 1 if an engine does not answer",
    )
    parser.add_argument("--json", action="store_true", help="with --once: print JSON")


def run(args: argparse.Namespace) -> int:
    import asyncio

    from isocost.agent import sample_once, serve
    from isocost.config import AgentConfig
    from isocost.config_file import load
    from isocost.errors import ConfigError, FieldError

    config = load(AgentConfig, args.config)
    if args.once:
        return _print(config, asyncio.run(sample_once(config)), args.json)
    if args.json:
        raise ConfigError("command line", [FieldError("--json", True, "needs --once")])
    asyncio.run(serve(config))
    return 0


def _print(config: AgentConfig, samples: tuple[NodeSample, ...], as_json: bool) -> int:
    silent = [
        node.name
        for node in config.nodes
        if node.name not in {sample.node.name for sample in samples if sample.engine_up}
    ]
    if as_json:
        import json

        nodes = [_plain(sample) for sample in samples]
        print(json.dumps({"agent": config.name, "nodes": nodes, "silent": silent}, indent=2))
        return 1 if silent else 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in _COLUMNS:
        table.add_column(title)
    for sample in samples:
        table.add_row(*_row(sample))
    console = Console()
    console.print(table)
    for name in silent:
        console.print(f"{name}: its engine does not answer")
    return 1 if silent else 0


def _row(sample: NodeSample) -> list[str]:
    engine, first = sample.engine, sample.gpus[0] if sample.gpus else None
    return [
        sample.node.name,
        sample.node.instance_id,
        _text(engine.running),
        _text(engine.waiting),
        _text(engine.kv_usage),
        str(len(sample.gpus)),
        _text(first.vram_free_bytes, 1e9) if first else "-",
        _text(first.gpu_utilisation) if first else "-",
    ]


def _text(signal: Signal, unit: float = 1.0) -> str:
    return f"{signal.value / unit:.4g}" if signal.known else signal.state.name.lower()


def _plain(value: Any) -> Any:
    """Frozen types as JSON: fields by name, states as words."""
    import dataclasses
    import enum

    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    return value
