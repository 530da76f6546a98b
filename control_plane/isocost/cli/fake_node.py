"""`isocost fake-node`: GPU nodes without GPUs, for tests, demos and drills."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from isocost.cli.log_flag import add_log_format
from isocost.errors import ConfigError, FieldError
from isocost.fake.cards import CARDS
from isocost.fake.hardware import Hardware
from isocost.fake.models import MODELS, model_named
from isocost.fake.settings import METRICS, FakeNodeSettings
from isocost.output import best_effort, printable

if TYPE_CHECKING:
    from isocost.fake.server import Server

SUMMARY = "run fake GPU nodes: OpenAI-compatible servers in front of modelled engines"
EXAMPLES = """  isocost fake-node
  isocost fake-node --name n7 --listen 127.0.0.1:18107 --gpu-kind A100 --max-num-seqs 64
  isocost fake-node --count 32 --stream-chunks token
  isocost fake-node --model llama-3.1-70b --gpu-count 4 --served-model-name chat
  isocost fake-node --gpu-count 4 --model qwen2.5-7b --model qwen2.5-72b
  isocost fake-node --count 8 --machine /tmp/host-1
  curl -d '{"0": {"temperature": 93, "nvlink.3.active": 0}}' http://127.0.0.1:18101/fake/gpus
  curl -d '{"free_vram_fraction": 0.1}' http://127.0.0.1:18101/fake/telemetry
  curl -d '{"fault": "status", "status": 503, "requests": 5}' http://127.0.0.1:18101/fake/faults
  curl -d '[{"fault": "slow", "factor": 3, "for_s": 60}, {"fault": "restart", "after_s": 90,
             "down_s": 5}]' http://127.0.0.1:18101/fake/faults
  curl -X DELETE http://127.0.0.1:18101/fake/faults
"""
_LAST_PORT = 65535
_MODEL = "llama-3.1-8b"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name",
        default="fake",
        help="name of the node, or with --count NAME-1, NAME-2 and so on (default %(default)s)",
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:18101",
        type=_listen,
        metavar="HOST:PORT",
        help="port 0 takes any free one (default 127.0.0.1:18101)",
    )
    parser.add_argument(
        "--count",
        type=_between(1, 1000),
        metavar="N",
        help="run N nodes in this process, on consecutive ports",
    )
    parser.add_argument(
        "--model",
        action="append",
        choices=MODELS,
        metavar="MODEL",
        help=f"one of {', '.join(MODELS)} (default {_MODEL}); several times: models whose engines "
        "share the GPUs, behind one address",
    )
    parser.add_argument(
        "--served-model-name",
        action="append",
        metavar="NAME",
        help="name of the model in requests and answers (default: the model's); with several "
        "models once for each, in their order",
    )
    parser.add_argument("--gpu-kind", default="H100", choices=CARDS, help="default %(default)s")
    parser.add_argument(
        "--gpu-count",
        default=1,
        type=_between(1, 64),
        metavar="N",
        help="GPUs of a node, tensor-parallel (default %(default)s)",
    )
    parser.add_argument(
        "--metrics",
        default="vllm",
        choices=METRICS,
        help="whose names the metrics have (default %(default)s)",
    )
    parser.add_argument(
        "--max-num-seqs",
        default=128,
        type=_between(1, 4096),
        metavar="N",
        help="requests in the batch at once (default %(default)s)",
    )
    parser.add_argument(
        "--stream-chunks",
        default=8,
        type=_chunks,
        metavar="N|token",
        help="pieces of a streamed answer at most, or one piece a token (default %(default)s)",
    )
    parser.add_argument(
        "--machine",
        type=Path,
        metavar="DIR",
        help="be part of the fake machine in this folder: its GPUs, as an agent reads them through "
        "NVML, its /proc and /sys; several nodes can share one",
    )
    parser.add_argument(
        "--seed",
        default=0,
        type=_between(0, 2**63),
        metavar="N",
        help="of the answers' text, the GPUs' ids and the network's faults (default %(default)s)",
    )
    add_log_format(parser)


def run(args: argparse.Namespace) -> int:
    import asyncio

    from isocost.fake.server import serve

    if args.machine is not None:
        _tell_agent(args.machine)
    asyncio.run(serve(list(_nodes(args)), _ready))
    return 0


def _nodes(args: argparse.Namespace) -> Iterator[FakeNodeSettings]:
    host, port = args.listen
    most = _LAST_PORT - port + 1
    if args.count is not None and port and args.count > most:
        allowed = f"must be at most {most}: the last port is {_LAST_PORT}"
        raise ConfigError("fake-node", [FieldError("--count", args.count, allowed)])
    models = [model_named(name) for name in args.model or (_MODEL,)]
    hardware = Hardware(args.gpu_kind, args.gpu_count, models[0], tuple(models[1:]))
    names = args.served_model_name or [model.name for model in models]
    if len(names) != len(models):
        allowed = f"must be there for each of {len(models)} models"
        raise ConfigError("fake-node", [FieldError("--served-model-name", names, allowed)])
    if len(set(names)) < len(names):
        raise ConfigError("fake-node", [FieldError("--model", names, "must be different names")])
    if args.machine is not None and not _FILE_NAME.fullmatch(args.name):
        allowed = "must be letters, digits, '.', '_' and '-' with --machine: it names files there"
        raise ConfigError("fake-node", [FieldError("--name", args.name, allowed)])
    for index in range(args.count or 1):
        yield FakeNodeSettings(
            name=args.name if args.count is None else f"{args.name}-{index + 1}",
            host=host,
            port=port + index if port else 0,
            hardware=hardware,
            served_model_name=names[0],
            served_beside=tuple(names[1:]),
            metrics=args.metrics,
            max_num_seqs=args.max_num_seqs,
            stream_chunks=args.stream_chunks,
            seed=args.seed,
            machine=args.machine,
        )


def _ready(server: Server) -> None:
    """Say so; that nobody can read it is no reason not to serve."""
    from isocost.fake.listener import host_port

    node = server.settings
    text = (
        f"fake node {node.name} listens on {host_port(node.host, server.port)} "
        f"({node.hardware.count} x {node.hardware.kind}, {', '.join(node.served)})"
    )
    if node.machine is not None:
        text += f": {', '.join(node.gpu_uuids)}"
    _say(text)


def _tell_agent(machine: Path) -> None:
    """How an agent is started on that machine."""
    from isocost.fake.machine import agent_environment

    environment = agent_environment(machine).items()
    words = " ".join(f"{key}={shlex.quote(value)}" for key, value in environment)
    _say(f"its agent: {words} isocost agent --config FILE")


def _say(text: str) -> None:
    print(printable(text), file=best_effort(sys.stdout), flush=True)


def _listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > _LAST_PORT:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; must be HOST:PORT with a port between 0 and {_LAST_PORT}"
        )
    return host.strip("[]"), int(port)


def _between(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not allowed; must be an integer between {low} and {high}"
            )
        return int(text)

    return read


def _chunks(text: str) -> int | None:
    return None if text == "token" else _between(2, 1_000_000)(text)
