"""`isocost agent`: reports the nodes of one GPU machine to the control plane."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from isocost import start_signals
from isocost.cli.log_flag import add_log_format

if TYPE_CHECKING:
    from isocost.agent import MachineSample
    from isocost.config import AgentConfig

SUMMARY = "report the nodes of one GPU machine to the control plane"
EXAMPLES = """  isocost agent --config /etc/isocost/agent.yaml
  isocost agent --config agent.yaml --log-format json
  kill -HUP PID    # read the file again; a file that changed is read anyway
  isocost agent --config agent.yaml --once
  isocost agent --config agent.yaml --once --json | jq '.gpus[].condition.temperature_celsius'
  curl http://127.0.0.1:18081/metrics
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="YAML configuration"
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="sample once, print it and send nothing; exit code 1 if an engine does not answer, "
        "or a configured GPU cannot be read",
    )
    parser.add_argument("--json", action="store_true", help="with --once: print JSON")
    add_log_format(parser)


def run(args: argparse.Namespace) -> int:
    if not args.once:
        start_signals.hold()

    import asyncio

    from isocost.agent import sample_once, serve
    from isocost.config import AgentConfig
    from isocost.config_source import ConfigSource
    from isocost.errors import ConfigError, FieldError

    loaded = ConfigSource(AgentConfig, args.config).load()
    config = loaded.config
    if args.once:
        return _print(config, asyncio.run(sample_once(config)), args.json)
    if args.json:
        raise ConfigError("command line", [FieldError("--json", True, "needs --once")])
    asyncio.run(serve(loaded))
    return 0


def _print(config: AgentConfig, sample: MachineSample, as_json: bool) -> int:
    from isocost.cli.agent_text import missing, plain, tables

    lacks = missing(config, sample)
    if as_json:
        print(json.dumps(plain(config, sample, lacks), indent=2))
    else:
        print(tables(config, sample, lacks))
    return 1 if lacks.silent or lacks.unread else 0
