"""`isocost nodes`: every node with its state, numbers and load."""

from __future__ import annotations

import argparse
import json

from isocost.cli.admin_client import add_http_argument, call

SUMMARY = "list the nodes with state, weight, entropy and load"
EXAMPLES = """  isocost nodes
  isocost nodes --json | jq '.nodes[] | select(.state != "serving")'
"""

_COLUMNS = (
    ("name", "NODE"),
    ("rack", "RACK"),
    ("address", "ADDRESS"),
    ("state", "STATE"),
    ("reason", "REASON"),
    ("weight", "WEIGHT"),
    ("entropy", "ENTROPY"),
    ("in_flight", "OPEN"),
    ("waiting", "WAITING"),
    ("free_vram_share", "FREE"),
    ("latency_ms", "LATENCY_MS"),
    ("override", "OVERRIDE"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_http_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    answer = call(args.http, "GET", "/v1/nodes")
    if args.json:
        print(json.dumps(answer, indent=2))
        return 0
    rows = [[title for _, title in _COLUMNS]]
    rows += [[_text(node[key]) for key, _ in _COLUMNS] for node in answer["nodes"]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    return 0


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return str(value)
