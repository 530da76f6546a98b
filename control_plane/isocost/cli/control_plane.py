"""`isocost control-plane`: the daemon that scores the fleet and feeds every Envoy."""

from __future__ import annotations

import argparse
from pathlib import Path

from isocost import start_signals
from isocost.cli.log_flag import add_log_format

SUMMARY = "run the control plane: score the nodes, push their numbers to every Envoy"
EXAMPLES = """  isocost control-plane
  isocost control-plane --config /etc/isocost/control-plane.yaml
  isocost control-plane --config control-plane.yaml --log-format json
  kill -HUP PID    # read the file again; a file that changed is read anyway
  isocost control-plane --listen 0.0.0.0:18000 --policy min_entropy
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML configuration")
    parser.add_argument("--listen", metavar="HOST:PORT", help="gRPC: Envoys and agents")
    parser.add_argument("--http", metavar="HOST:PORT", help="metrics, health and admin pages")
    parser.add_argument("--state-dir", metavar="DIR", help="folder of what must survive a restart")
    parser.add_argument("--policy", help="equal_cost, weighted_random or min_entropy")
    add_log_format(parser)


def run(args: argparse.Namespace) -> int:
    start_signals.hold()

    import asyncio

    from isocost.config import ControlPlaneConfig
    from isocost.config_source import ConfigSource
    from isocost.daemon import serve

    words = {
        "listen": args.listen,
        "http": args.http,
        "state_dir": args.state_dir,
        "filter.policy": args.policy,
    }
    # What is given empty is refused like any other wrong value, not left out.
    flags = {field: value for field, value in words.items() if value is not None}
    asyncio.run(serve(ConfigSource(ControlPlaneConfig, args.config, flags).load()))
    return 0
