"""`isocost fake-node`: a GPU node without GPUs, for tests, demos and drills."""

from __future__ import annotations

import argparse

SUMMARY = "run a fake GPU node: an OpenAI-compatible server in front of a modelled engine"
EXAMPLES = """  isocost fake-node
  isocost fake-node --name n7 --listen 127.0.0.1:18107 --gpu-kind A100 --max-num-seqs 64
  isocost fake-node --stream-chunks token
  curl -d '{"free_vram_fraction": 0.1}' http://127.0.0.1:18101/fake/telemetry
  curl -d '{"status": 503, "requests": 5}' http://127.0.0.1:18101/fake/behaviour
  curl -d '{"hang": true}' http://127.0.0.1:18101/fake/behaviour
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="fake-1", help="name of the node (default %(default)s)")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:18101",
        type=_listen,
        metavar="HOST:PORT",
        help="port 0 takes any free one (default 127.0.0.1:18101)",
    )
    parser.add_argument(
        "--model", default="llama-3.1-8b", help="model that it serves (default %(default)s)"
    )
    parser.add_argument(
        "--gpu-kind", default="H100", choices=("H100", "A100"), help="default %(default)s"
    )
    parser.add_argument(
        "--gpu-count", default=1, type=_between(1, 64), metavar="N", help="default %(default)s"
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
        "--seed",
        default=0,
        type=_between(0, 2**63),
        metavar="N",
        help="of the answers' text and the GPUs' ids (default %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    import asyncio

    from isocost.fake.cards import Hardware
    from isocost.fake.server import FakeNodeSettings, serve

    host, port = args.listen
    hardware = Hardware(args.gpu_kind, args.gpu_count)

    def ready(bound_port: int) -> None:
        print(
            f"fake node {args.name} listens on {host}:{bound_port} "
            f"({hardware.count} x {hardware.kind}, {args.model})",
            flush=True,
        )

    settings = FakeNodeSettings(
        name=args.name,
        host=host,
        port=port,
        model=args.model,
        hardware=hardware,
        max_num_seqs=args.max_num_seqs,
        stream_chunks=args.stream_chunks,
        seed=args.seed,
    )
    asyncio.run(serve(settings, ready))
    return 0


def _listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; must be HOST:PORT with a port between 0 and 65535"
        )
    return host.strip("[]"), int(port)


class _Between:
    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def __call__(self, text: str) -> int:
        if not text.isdigit() or not self._low <= int(text) <= self._high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not allowed; must be an integer between {self._low} and {self._high}"
            )
        return int(text)


def _between(low: int, high: int) -> _Between:
    return _Between(low, high)


def _chunks(text: str) -> int | None:
    return None if text == "token" else _Between(2, 1_000_000)(text)
