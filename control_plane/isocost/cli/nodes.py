"""`isocost nodes`: every node with its state, numbers, load and what was set by hand."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from isocost.cli.admin_client import add_http_argument, call, node_path
from isocost.cli.columns import aligned
from isocost.cli.why_text import why_text
from isocost.errors import RejectedError
from isocost.output import printable

SUMMARY = "list the nodes with state, numbers, load and settings by hand"
EXAMPLES = """  isocost nodes
  isocost nodes --json | jq '.nodes[] | select(.state != "serving")'
  isocost nodes --why gpu-3
  isocost nodes --json | jq '.nodes[].signals.gpus[] | select(.lost)'
  isocost nodes --json | jq '.nodes[] | {name, health_findings}'
"""

Row = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_http_argument(parser)
    parser.add_argument(
        "--why",
        metavar="NODE",
        help="of one node, every term of its numbers: value, state, age and contribution",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON, with the state, value and age of every signal",
    )


def run(args: argparse.Namespace) -> int:
    if args.why is not None:
        if not args.why:
            raise RejectedError("--why: the name of a node is missing")
        answer = call(args.http, "GET", node_path(args.why, "why"))
        print(json.dumps(answer, indent=2) if args.json else _why(answer))
        return 0
    if args.json:
        print(json.dumps(call(args.http, "GET", "/v1/nodes?signals"), indent=2))
        return 0
    answer = call(args.http, "GET", "/v1/nodes")
    now_unix_s = time.time()
    rows = [[title for title, _ in _COLUMNS]]
    rows += [
        [printable(read(node, now_unix_s)) for _, read in _COLUMNS] for node in answer["nodes"]
    ]
    print("\n".join(aligned(rows)))
    for node in answer["unseen"]:
        text = f"not there, but set by hand: {node['name']}: {_by_hand(node, now_unix_s)}"
        print(printable(text))
    for node in answer["unresolved"]:
        text = f"not in the roster: {node['name']} at {node['address']}: {node['error']}"
        print(printable(text))
    return 0


def _why(answer: Row) -> str:
    by_hand = _by_hand(answer, time.time())
    return why_text(answer) + (printable(f"\n\nby hand: {by_hand}") if by_hand else "")


def _field(key: str) -> Callable[[Row, float], str]:
    def read(node: Row, _: float) -> str:
        value = node[key]
        if value is None:
            return "-"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return read


def _health(node: Row, _: float) -> str:
    """The strongest finding, and how many more; "?": none is known, but something cannot be."""
    findings = node["health_findings"]
    if not findings:
        return "?" if node["health_unknown"] else "-"
    strongest = [item for item in findings if item["action"] == findings[0]["action"]]
    # Of an Xid that nobody judged, the name says the least.
    first, more = min(strongest, key=lambda item: item["row"] == "xid_other"), len(findings) - 1
    text = f"{first['row']} {first['value']:g}"
    return f"{text} (+{more})" if more else text


def _doubted(node: Row, _: float) -> str:
    """The guards that do not believe its numbers."""
    return ",".join(node["guards"]) or "-"


def _since(node: Row, _: float) -> str:
    return duration(node["state_age_s"])


def _by_hand(node: Row, now_unix_s: float) -> str:
    """What was set by hand: by whom, how long ago and why."""
    drain, override = node["drain"], node["override"]
    parts = []
    if drain is not None:
        parts.append(("drain", drain))
    if override is not None:
        key = "weight" if "weight" in override else "entropy"
        parts.append((f"{key} {override[key]}", override))
    return "; ".join(
        f"{what} ({item['who']}, {duration(now_unix_s - item['at_unix_s'])} ago"
        + (f": {item['why']})" if item["why"] else ")")
        for what, item in parts
    )


def duration(seconds: float) -> str:
    """In whole seconds, minutes or hours."""
    whole = max(int(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"


_COLUMNS: tuple[tuple[str, Callable[[Row, float], str]], ...] = (
    ("NODE", _field("name")),
    ("RACK", _field("rack")),
    ("ADDRESS", _field("address")),
    ("STATE", _field("state")),
    ("REASON", _field("reason")),
    ("SINCE", _since),
    ("WEIGHT", _field("weight")),
    ("ENTROPY", _field("entropy")),
    ("CAPACITY", _field("capacity")),
    ("TOKENS/S", _field("prefill_tokens_per_s")),
    ("OPEN", _field("in_flight")),
    ("PENDING", _field("pending_tokens")),
    ("WAITING", _field("waiting")),
    ("FREE", _field("free_vram_share")),
    ("LATENCY_MS", _field("latency_ms")),
    ("HEALTH", _health),
    ("DOUBTED", _doubted),
    ("BY HAND", _by_hand),
)
