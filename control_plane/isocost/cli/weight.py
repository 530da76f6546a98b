"""`isocost weight`: set a node's weight or entropy by hand, or let go of it."""

from __future__ import annotations

import argparse

from isocost.cli.admin_client import add_http_argument, add_why_argument, call, node_path, note

SUMMARY = "set a node's weight or entropy by hand, or clear it"
EXAMPLES = """  isocost weight gpu-3 --entropy inf --why "fan broken"    no request goes there
  isocost weight gpu-3 --weight 0.5       half of what an idle node gets
  isocost weight gpu-3 --clear            back to the computed numbers
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help="the node's name")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--weight", metavar="W", help="a number between 0 and 1")
    what.add_argument("--entropy", metavar="E", help="a number >= 0, or inf: never")
    what.add_argument("--clear", action="store_true", help="remove what was set by hand")
    add_why_argument(parser)
    add_http_argument(parser)


def run(args: argparse.Namespace) -> int:
    path = node_path(args.node, "override")
    if args.clear:
        call(args.http, "DELETE", path, note(args.why))
        print(f"{args.node}: computed numbers again")
        return 0
    body = {"weight": args.weight} if args.weight is not None else {"entropy": args.entropy}
    call(args.http, "PUT", path, body | note(args.why))
    print(f"{args.node}: " + " ".join(f"{key} {value}" for key, value in body.items()))
    return 0
