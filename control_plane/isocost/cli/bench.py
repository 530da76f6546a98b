"""`isocost bench`: replay a trace against gateways or engines, and report what came of it."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isocost.errors import RejectedError

SUMMARY = "replay a trace against OpenAI-compatible servers: latencies, goodput, failures, balance"
EXAMPLES = """  isocost bench --url http://127.0.0.1:10000 --model llama-3.1-8b --duration 60
  isocost bench --url http://127.0.0.1:10000 --model llama-3.1-8b --trace abc --rate 20 \\
      --slo ttft_ms=850,tpot_ms=50 --report build/bench.json --html build/bench.html
  isocost bench --target isocost=http://gw-a:10000 --target other=http://gw-b:8080 \\
      --model llama-3.1-8b --rounds 6 --fail-if 'ratios.other.ttft_ms.p99.low<1'
  isocost bench --url http://127.0.0.1:10000 --model llama-3.1-8b --scenario slow.yaml \\
      --control-plane http://127.0.0.1:18080 --access-log access.log --html build/slow.html
  OPENAI_API_KEY=... isocost bench --url https://api.example.com/v1 --model m --rate 2 \\
      --fail-if 'ttft_ms.p99>850' --fail-if 'requests.failed>0' --fail-if 'requests.rejected>0'
  isocost bench --url http://127.0.0.1:10000 --model llama-3.1-8b --body '{"stream": false}' \\
      --slo e2e_ms=10000

exit codes: 0 done, 1 a --fail-if holds or its value is unknown, 2 wrong usage, 3 could not run,
130 interrupted (what was measured so far is reported)
"""

_SEVERAL_ROUNDS = 5
#: What isocost.bench.load knows, which is not imported for a page of help.
_TRACES = "azure-conv, mooncake, mooncake-bursts, servegen, abc, burstgpt"
_FORMATS = "azure, mooncake, mooncake-bursts, burstgpt, aibrix, servegen, abc"
#: RFC 9110: a token, and a value without line breaks.
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
#: Headers and members of a request's JSON that the trace or the bench itself fills.
_OWN_HEADERS = ("content-length", "transfer-encoding")
_OWN_MEMBERS = ("model", "messages", "max_tokens")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_target_arguments(parser)
    _add_load_arguments(parser)
    _add_observation_arguments(parser)
    _add_output_arguments(parser)


def _add_target_arguments(parser: argparse.ArgumentParser) -> None:
    targets = parser.add_mutually_exclusive_group(required=True)
    targets.add_argument(
        "--url", action="append", help="base URL of the server, with or without /v1"
    )
    targets.add_argument(
        "--target",
        action="append",
        metavar="NAME=URL",
        help="a server to compare; several times, the first is the baseline",
    )
    parser.add_argument("--model", required=True, help="model that is asked for")
    parser.add_argument(
        "--rounds",
        type=_count,
        metavar="N",
        help="parts of the trace, each sent to all targets in turn (default 1, with several "
        f"targets {_SEVERAL_ROUNDS})",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of every request; OPENAI_API_KEY, if set, is sent as bearer token",
    )
    parser.add_argument(
        "--body",
        default="{}",
        metavar="JSON",
        help="an object whose members are added to every request's, e.g. '{\"ignore_eos\": true}' "
        "for answers as long as the trace's; '{\"stream\": false}' for answers in one piece",
    )
    parser.add_argument(
        "--max-connections",
        type=_count,
        default=4096,
        metavar="N",
        help="connections at most; a request that finds none free waits, which counts "
        "(default %(default)s)",
    )
    for flag, default, what in (
        ("--request-timeout", 120.0, "a request that takes longer has failed"),
        ("--connect-timeout", 5.0, "so does one whose connection takes longer"),
    ):
        parser.add_argument(
            flag, type=_positive, default=default, metavar="S", help=f"{what} (default {default:g})"
        )


def _add_load_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        default="azure-conv",
        metavar="FILE|NAME",
        help=f"what is sent: a file, or {_TRACES} (default %(default)s)",
    )
    parser.add_argument(
        "--format",
        help=f"of the file, where its first line does not show it: {_FORMATS}",
    )
    for flag, metavar, what in (
        ("--duration", "S", "send the first S seconds (as they are sent)"),
        ("--rate", "R", "requests per second on average, instead of the trace's own rate"),
    ):
        parser.add_argument(flag, type=_positive, metavar=metavar, help=what)
    for flag, what in (
        ("--time-scale", "times as fast: gaps are divided by it"),
        ("--rate-scale", "times as many requests in the same time"),
    ):
        parser.add_argument(
            flag, type=_positive, default=1.0, metavar="X", help=f"{what} (default 1)"
        )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=1,
        metavar="N",
        help="of prompts, generated traces and the order of targets (default %(default)s)",
    )


def _add_observation_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--control-plane",
        metavar="HOST:PORT|URL",
        help="sample the nodes from its HTTP address each second",
    )
    parser.add_argument(
        "--access-log",
        type=Path,
        metavar="FILE",
        help="Envoy's access log: attempts, racks, and the node of answers that failed",
    )
    parser.add_argument(
        "--scenario", type=Path, metavar="FILE", help="faults that fake nodes get in the run"
    )


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--slo",
        metavar="LIMITS",
        help="what a good answer keeps to, e.g. ttft_ms=850,tpot_ms=50,e2e_ms=10000",
    )
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="EXPR",
        help="exit with 1 if this is true of the report, e.g. 'ttft_ms.p99>850'; several times",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    import asyncio

    from isocost.bench.condition import Condition
    from isocost.bench.console import open_console
    from isocost.bench.goodput import Slo
    from isocost.bench.options import BenchOptions
    from isocost.bench.run import run_bench
    from isocost.bench.target import parse_control_plane

    targets = _targets(args.url, args.target)
    options = BenchOptions(
        targets=targets,
        model=args.model,
        trace=args.trace,
        format=args.format,
        duration_s=args.duration,
        rate=args.rate,
        time_scale=args.time_scale,
        rate_scale=args.rate_scale,
        rounds=args.rounds or (1 if len(targets) == 1 else _SEVERAL_ROUNDS),
        slo=Slo.parse(args.slo) if args.slo is not None else Slo(),
        conditions=tuple(Condition.parse(text) for text in args.fail_if),
        seed=args.seed,
        max_connections=args.max_connections,
        request_timeout_s=args.request_timeout,
        connect_timeout_s=args.connect_timeout,
        headers=_headers(args.header, os.environ.get("OPENAI_API_KEY")),
        body=_body(args.body),
        control_plane=None
        if args.control_plane is None
        else parse_control_plane(args.control_plane),
        access_log=args.access_log,
        scenario=args.scenario,
        report=args.report,
        html=args.html,
        json=args.json,
    )
    return asyncio.run(run_bench(options, open_console(stderr=args.json)))


def _targets(urls: list[str] | None, named: Iterable[str] | None) -> Any:
    from isocost.bench.target import parse_target

    if urls is not None:
        if len(urls) > 1:
            raise RejectedError("--url is not allowed twice; --target NAME=URL compares servers")
        return (parse_target(urls[0], urls[0]),)
    targets = {}
    for text in named or ():
        name, equals, address = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise RejectedError(
                f"--target {text!r} is not allowed; it must be NAME=URL like "
                "isocost=http://127.0.0.1:10000"
            )
        if name in targets:
            raise RejectedError(f"--target {text!r}: there is another target {name!r}")
        targets[name] = parse_target(name, address, f"--target {name}:")
    return tuple(targets.values())


def _headers(texts: Iterable[str], api_key: str | None) -> dict[str, str]:
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    if api_key and _HEADER.fullmatch(f"authorization: {api_key}") is None:
        raise RejectedError("OPENAI_API_KEY is not allowed; it must be one line")
    for text in texts:
        match = _HEADER.fullmatch(text)
        if match is None:
            raise RejectedError(f"--header {text!r} is not allowed; it must be NAME: VALUE")
        if match[1].lower() in _OWN_HEADERS:
            raise RejectedError(f"--header: {match[1]} is not allowed; the bench sets it itself")
        headers[match[1].lower()] = match[2].strip()
    return headers


def _body(text: str) -> dict[str, object]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"--body {text!r} is not JSON: {error}") from error
    try:
        json.dumps(body, allow_nan=False)
    except ValueError as error:
        # Python's reader takes them, and makes a larger number an infinite one.
        raise RejectedError(
            f"--body {text!r} is not JSON, which has no NaN and no infinite numbers"
        ) from error
    if not isinstance(body, dict):
        raise RejectedError(f"--body {text!r} is not allowed; it must be a JSON object")
    for name in _OWN_MEMBERS:
        if name in body:
            raise RejectedError(f"--body: {name!r} is not allowed; the bench sets it itself")
    if not isinstance(body.get("stream", True), bool):
        raise RejectedError("--body: 'stream' must be true or false")
    return body


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; must be a number above 0")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; must be an integer between 1 and 1000000"
        )
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > 2**53:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; must be an integer between 0 and 2^53"
        )
    return int(text)
