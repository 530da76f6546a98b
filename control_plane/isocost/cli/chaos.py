"""`isocost chaos`: orders the faults of a scenario from fake nodes, without a load."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from isocost import start_signals
from isocost.cli.log_flag import add_log_format
from isocost.output import best_effort, printable

if TYPE_CHECKING:
    from isocost.bench.chaos import Change
    from isocost.bench.scenario import Scenario

SUMMARY = "order the faults of a scenario from fake nodes, without sending load"
EXAMPLES = """  isocost chaos slow.yaml
  isocost chaos slow.yaml --repeat --log-format json
  isocost chaos slow.yaml --json | jq 'select(.event == "begins") | .fault'

exit codes: 0 all faults have ended, or SIGTERM; 2 wrong usage, 3 could not run, 130 interrupted
(the faults are taken back)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenario",
        type=Path,
        metavar="SCENARIO",
        help="the file that `isocost bench --scenario` takes; times count from the orders",
    )
    parser.add_argument(
        "--repeat", action="store_true", help="begin again when the last fault has ended"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    add_log_format(parser)


def run(args: argparse.Namespace) -> int:
    # Without a handler the first process of a container ignores it.
    signal.signal(signal.SIGTERM, start_signals.end)

    from isocost.bench.chaos import require_ends
    from isocost.bench.scenario import read_scenario

    scenario = read_scenario(args.scenario)
    if args.repeat:
        require_ends(scenario, str(args.scenario))
    stopped = asyncio.run(_until_stopped(scenario, repeat=args.repeat, as_json=args.json))
    return 0 if stopped in {None, signal.SIGTERM} else 128 + signal.SIGINT


async def _until_stopped(
    scenario: Scenario, *, repeat: bool, as_json: bool
) -> signal.Signals | None:
    """The signal that ended it early, if one did."""
    from isocost.bench.chaos import run_chaos
    from isocost.bench.stop_signals import stopping_on_signals

    def tell(change: Change) -> None:
        line = (_json if as_json else _text)(change, datetime.now(UTC))
        print(line, file=output, flush=True)

    output = best_effort(sys.stdout)
    stopped: list[signal.Signals] = []
    chaos = asyncio.ensure_future(run_chaos(scenario, tell, repeat=repeat))

    def stop(number: signal.Signals) -> None:
        stopped.append(number)
        chaos.cancel()

    with stopping_on_signals(stop):
        try:
            await chaos
        except asyncio.CancelledError:
            if not stopped:
                raise
    return stopped[0] if stopped else None


def _text(change: Change, at: datetime) -> str:
    fault = change.fault
    parameters = "".join(f" {key}={value}" for key, value in fault.parameters.items())
    verb = "begins" if change.begins else "ends"
    return printable(f"{_time(at)} {fault.node}: {fault.fault} {verb}{parameters}")


def _json(change: Change, at: datetime) -> str:
    return json.dumps(
        {
            "time": _time(at),
            "node": change.fault.node,
            "fault": change.fault.fault,
            "event": "begins" if change.begins else "ends",
            "parameters": change.fault.parameters,
        }
    )


def _time(at: datetime) -> str:
    """As in the log's JSON."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
