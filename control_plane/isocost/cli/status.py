"""`isocost status`: what a control plane is, what it works with, and who is connected."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from isocost.cli.admin_client import add_http_argument, call
from isocost.cli.columns import aligned
from isocost.cli.nodes import duration
from isocost.output import named, printable

SUMMARY = "show a control plane: configuration, nodes by state, Envoys, and what they refuse"
EXAMPLES = """  isocost status
  isocost status --json | jq .config.refused
  isocost status --http 10.0.0.5:18080
"""

#: So many clients and fields are shown by name; --json has more.
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_http_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: docs/operating.md")


def run(args: argparse.Namespace) -> int:
    answer = call(args.http, "GET", "/v1/status")
    if args.json:
        print(json.dumps(answer, indent=2))
        return 0
    rows = [[title, printable(text)] for title, text in _rows(answer, time.time())]
    print("\n".join(aligned(rows)))
    return 0


def _rows(status: Mapping[str, Any], now_unix_s: float) -> Iterator[tuple[str, str]]:
    config, push = status["config"], status["push"]
    yield "version", f"{status['version']}, up {duration(status['uptime_s'])}"
    read = duration(now_unix_s - config["loaded_at_unix_s"])
    file = config["file"]
    yield "config", f"{file}, read {read} ago" if file else "no file: flags and defaults"
    if (refused := config["refused"]) is not None:
        yield "REFUSED", f"{duration(now_unix_s - refused['at_unix_s'])} ago; the one above stays"
        for item in refused["fields"][:_SHOWN]:
            yield "", f"{item['field']}: {item['allowed']}"
    yield "policy", status["policy"]
    nodes = [f"{count} {state}" for state, count in status["nodes"].items() if count]
    yield "nodes", ", ".join(nodes) or "none"
    if status["signals"]["missing"]:
        yield "missing", ", ".join(status["signals"]["missing"])
    yield from _discovery(status["discovery"])
    for conflict in status["discovery"]["conflicts"][:_SHOWN]:
        yield "conflict", conflict
    yield "envoys", f"{status['envoys_reporting']} report"
    interval = push["interval_ms"]
    pushed = f"; a table every {interval['p50']:.0f} ms" if interval else ""
    yield "clients", f"{push['connected']} connected, {push['refusing']} refuse something{pushed}"
    refusing = [
        client
        for client in push["clients"]
        if any(_error(held) is not None for held in client["types"].values())
    ]
    for client in refusing[:_SHOWN]:
        for name, held in client["types"].items():
            if _error(held) is not None:
                yield "", f"{client['node_id'] or client['peer']} refuses {name}: {_error(held)}"


def _discovery(discovery: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where the nodes are from, and which of them are not as a list has them."""
    for source in discovery["sources"]:
        answered = source["nodes"] is not None
        told = (
            f"{source['nodes']} nodes, {duration(source['age_s'])} ago" if answered else "no list"
        )
        for what in ("held", "refused"):
            if source[f"{what}_count"]:
                told += f", {source[f'{what}_count']} {what}"
        yield source["name"], told
        if source["error"] is not None:
            yield "", f"ERROR: {source['error']}"
    for what in ("unresolved", "stale_names", "unreachable"):
        if count := discovery[f"{what}_count"]:
            entries = [item if isinstance(item, str) else item["name"] for item in discovery[what]]
            yield what.replace("_", " "), f"{count}: {named(entries)}"


def _error(held: Mapping[str, Any]) -> str | None:
    return held["error"]  # type: ignore[no-any-return]
