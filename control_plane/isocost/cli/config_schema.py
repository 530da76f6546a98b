"""`isocost config schema`: the JSON schema of a configuration file."""

from __future__ import annotations

import argparse
import json

SUMMARY = "print the JSON schema of a configuration file"
EXAMPLES = """  isocost config schema
  isocost config schema agent > agent.schema.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        nargs="?",
        choices=("control-plane", "agent", "nodes"),
        default="control-plane",
        help="what the file configures; nodes is the discovery file (default control-plane)",
    )


def run(args: argparse.Namespace) -> int:
    from isocost.config_schema import config_schema

    print(json.dumps(config_schema(args.kind), indent=2))
    return 0
