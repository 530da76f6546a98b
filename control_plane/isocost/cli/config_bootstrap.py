"""`isocost config bootstrap`: Envoy's configuration with this machine's addresses."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "print the bootstrap of an Envoy with the filter"
EXAMPLES = """  isocost config bootstrap --control-plane 10.0.0.5:18000 --output envoy.yaml
  envoy -c envoy.yaml
"""

_OPTIONS = ("node_id", "listen", "admin", "control_plane", "wasm_path")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node-id", metavar="NAME", help="this Envoy's own name (default edge-1)")
    parser.add_argument(
        "--listen", metavar="IP:PORT", help="where clients connect (default 0.0.0.0:10000)"
    )
    parser.add_argument(
        "--admin", metavar="IP:PORT", help="Envoy's admin page (default 127.0.0.1:9901)"
    )
    parser.add_argument(
        "--control-plane",
        metavar="HOST:PORT",
        help="the control plane's gRPC address (default 127.0.0.1:18000)",
    )
    parser.add_argument(
        "--wasm",
        dest="wasm_path",
        metavar="FILE",
        help="the filter as this Envoy finds it (default: the installed one)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write it there (default: standard output)"
    )


def run(args: argparse.Namespace) -> int:
    from isocost.config import BootstrapSettings
    from isocost.config_file import parse
    from isocost.envoy.bootstrap import bootstrap_yaml
    from isocost.errors import StartError

    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    text = bootstrap_yaml(parse(BootstrapSettings, given, "command line"))
    if args.output is None:
        print(text, end="")
        return 0
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StartError(f"{args.output} cannot be written: {error} (--output)") from error
    return 0
