"""`isocost undrain`: give nodes traffic again."""

from __future__ import annotations

import argparse

from isocost.cli.admin_client import (
    add_http_argument,
    add_why_argument,
    call,
    node_path,
    note,
    require_known,
)

SUMMARY = "give drained nodes traffic again, in a slow start"
EXAMPLES = """  isocost undrain gpu-3
  isocost undrain gpu-3 gpu-4 --why "new fans"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="the nodes' names")
    add_why_argument(parser)
    add_http_argument(parser)


def run(args: argparse.Namespace) -> int:
    require_known(args.http, args.nodes)
    for node in args.nodes:
        call(args.http, "DELETE", node_path(node, "drain"), note(args.why))
        print(f"{node}: drained no longer")
    return 0
