"""`isocost calibrate`: measures one engine, and gives the coefficients of the entropy."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from isocost.calibrate.plan import Plan

SUMMARY = "measure what requests cost one engine: coefficients of the entropy, memory, capacity"
EXAMPLES = """  isocost calibrate --url http://127.0.0.1:18101 --gpu-kind H100 --output entropy.yaml
  isocost calibrate --url http://gpu-3:8000 --kv-bytes-per-token 131072 --gpu-kind H100 \\
      --json > h100.json
  isocost calibrate --url http://gpu-9:8000 --kv-bytes-per-token 131072 --gpu-kind A100 \\
      --reference h100.json --output entropy.yaml
  isocost calibrate --url http://gpu-3:8000 --lengths 128,512,2048 --concurrency 32 --seconds 10

The engine must have no other traffic. OPENAI_API_KEY, if set, is sent as bearer token.

exit codes: 0 done, 1 no coefficients: the causes cannot be told apart or the measurements are too
noisy, 2 wrong usage, 3 could not run (others use the engine, a request failed), 130 interrupted
(what was measured is discarded)
"""

_DEFAULTS = Plan()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", required=True, help="base URL of the engine, not of a gateway")
    parser.add_argument("--model", help="model that is asked for (default: the only one)")
    parser.add_argument(
        "--lengths",
        type=_lengths,
        default=_DEFAULTS.lengths,
        metavar="LIST",
        help="of the prompts, in tokens (default 128,512,2048,8192)",
    )
    parser.add_argument(
        "--concurrency",
        type=_between(1, 1024),
        default=_DEFAULTS.concurrency,
        metavar="N",
        help="requests of a length at once, fewer where the KV cache is too small "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=_DEFAULTS.seconds,
        metavar="S",
        help="measure each load for so long at least (default %(default)g)",
    )
    parser.add_argument(
        "--kv-bytes-per-token",
        type=_between(1, 2**40),
        metavar="N",
        help="KV cache of a token, as in the nodes' configuration (fake nodes tell it)",
    )
    parser.add_argument("--gpu-kind", metavar="KIND", help="as in the nodes' configuration")
    parser.add_argument(
        "--gpu-count",
        type=_between(1, 64),
        default=1,
        metavar="N",
        help="the engine's GPUs (default %(default)s)",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="the JSON of the reference card's calibration: its coefficients stay, and this "
        "kind's capacity is told beside it; needs --gpu-kind",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the configuration's fragment there"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    import asyncio
    import time

    from isocost.bench.console import open_console, print_text
    from isocost.bench.outputs import require_writable, write_text
    from isocost.bench.target import parse_target
    from isocost.calibrate.fragment import (
        Reference,
        as_json,
        entropy_settings,
        fragment,
        read_reference,
    )
    from isocost.calibrate.plan import Load
    from isocost.calibrate.run import Options, calibrate
    from isocost.calibrate.text import report
    from isocost.errors import FitError, RejectedError
    from isocost.output import printable

    if args.reference is not None and args.gpu_kind is None:
        raise RejectedError("--reference needs --gpu-kind: whose capacity is it")
    if args.output is not None:
        require_writable("--output", args.output)
    key = os.environ.get("OPENAI_API_KEY")
    if key is not None and not key.isprintable():
        raise RejectedError("OPENAI_API_KEY is not allowed; it must be one line")
    options = Options(
        target=parse_target(args.url, args.url),
        plan=Plan(args.lengths, args.concurrency, args.seconds),
        model=args.model,
        gpu_kind=args.gpu_kind,
        gpu_count=args.gpu_count,
        kv_bytes_per_token=args.kv_bytes_per_token,
        headers={"authorization": f"Bearer {key}"} if key else {},
        seed=time.time_ns(),
    )
    console = open_console(stderr=True)
    references: list[Reference] = []

    def planned(mix: Load) -> None:
        if args.reference is not None:
            references.append(read_reference(args.reference, options.plan, mix.concurrency))

    def note(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    try:
        found = asyncio.run(calibrate(options, note, planned))
    except FitError as error:
        print(f"isocost: {printable(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        note("interrupted: what was measured is discarded")
        raise
    settings = entropy_settings(found, references[0] if references else None)
    text = fragment(found, settings)
    if args.output is not None:
        write_text("--output", args.output, text)
    if args.json:
        print_text(json.dumps(as_json(found, settings), indent=2) + "\n")
    else:
        print_text(report(found) + "\n" + ("" if args.output is not None else f"\n{text}"))
    return 0


def _lengths(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,7}(,[0-9]{1,7})*", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; must be numbers of tokens like 128,512,2048,8192"
        )
    lengths = tuple(int(part) for part in text.split(","))
    if len(set(lengths)) != len(lengths) or min(lengths) < 16:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; each length once, and 16 tokens at least"
        )
    return lengths


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; must be a number above 0 and at most 3600"
        )
    return value


def _between(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not allowed; must be an integer between {low} and {high}"
            )
        return int(text)

    return read
