"""The fleet of the quality benchmark: 16 fake nodes of two speeds, the traces, the gateways."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isocost.demo.fleet import CAPACITY, MODEL, DemoNode
from isocost.demo.processes import Processes
from tests.benchmark.capacity import capacity_per_s, mix_of
from tests.benchmark.policies import engine_of
from tests.benchmark.stage import NODE_PORT, Gateway, Stage

#: Of each kind; two nodes a host, and a host of each kind in every rack.
KINDS, NODES_OF_A_KIND, NODES_OF_A_HOST = ("H100", "A100"), 8, 2
NODES = tuple(
    DemoNode(
        name=f"{kind.lower()}-{index + 1}",
        rack=f"rack-{index // NODES_OF_A_HOST + 1}",
        host=f"host-{kind.lower()}-{index // NODES_OF_A_HOST + 1}",
        gpu_kind=kind,
        port=NODE_PORT + place * NODES_OF_A_KIND + index,
    )
    for place, kind in enumerate(KINDS)
    for index in range(NODES_OF_A_KIND)
)
#: The slowest round robin has answers that wait for minutes.
REQUEST_TIMEOUT_S = 900
#: Before anything counts, so that the speeds of the nodes are learned.
WARM_UP_S = 20.0


@dataclass(frozen=True, slots=True)
class Trace:
    """How a trace is sent: copies of each request, parts in a run, and seconds of a part."""

    name: str
    source: str
    copies: int = 1
    rounds: int = 1
    round_s: float = 30.0

    def flags(self, rate_per_s: float, duration_s: float | None = None) -> list[str]:
        duration_s = duration_s or self.rounds * self.round_s
        return [
            *("--trace", self.source, "--rate", f"{rate_per_s:.3f}"),
            *("--rate-scale", str(self.copies), "--duration", f"{duration_s:g}"),
        ]

    def rate_per_s(self, load: float) -> float:
        """Requests a second that are this share of what all nodes together sustain."""
        mix = mix_of(self.source)
        per_kind = (capacity_per_s(engine_of(kind), mix) for kind in KINDS)
        return load * NODES_OF_A_KIND * sum(per_kind)


#: A Mooncake request is ten times an Azure one, so fewer come.
CONV = Trace("azure-conv", "azure-conv", copies=3)
TRACES = (CONV, Trace("mooncake", "mooncake", rounds=2, round_s=45.0), Trace("abc", "abc"))


@dataclass(frozen=True, slots=True)
class Bench:
    """A running fleet with the gateways in front of it, and what was asked for."""

    stage: Stage
    gateways: Mapping[str, Gateway]
    control_plane: str
    folder: Path
    load: float

    def run(self, name: str, targets: Sequence[str], *flags: str) -> dict[str, Any]:
        """Send a load to the targets in turn; the report of the bench."""
        report = self.folder / f"{name}.json"
        urls = (f"{target}={self.gateways[target].url}" for target in targets)
        self.stage.bench(
            *(flag for url in urls for flag in ("--target", url)),
            *("--control-plane", self.control_plane),
            *("--request-timeout", str(REQUEST_TIMEOUT_S)),
            *("--report", str(report), "--html", str(report.with_suffix(".html"))),
            *flags,
        )
        data: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return data


@contextmanager
def started(folder: Path, load: float, policy: str, envoys: int) -> Iterator[Bench]:
    """Fake nodes, ours and Envoy's own policies; with several Envoys each is behind a front that
    spreads over them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Processes(folder) as processes:
        stage = Stage(processes, folder, MODEL)
        for kind in KINDS:
            first = next(node.port for node in NODES if node.gpu_kind == kind)
            stage.start_nodes(
                kind.lower(),
                *("--count", str(NODES_OF_A_KIND), "--listen", f"127.0.0.1:{first}"),
                *("--gpu-kind", kind),
            )
        entries = [node.agent_entry() for node in NODES]
        ours = stage.start_ours(policy, entries, entropy={"capacity": CAPACITY})
        addresses = [f"127.0.0.1:{node.port}" for node in NODES]
        fleets = {
            policy: [ours, *(stage.start_another(ours) for _ in range(envoys - 1))],
            "least_request": [stage.start_plain("LEAST_REQUEST", addresses) for _ in range(envoys)],
        }
        if envoys == 1:
            fleets["round_robin"] = [stage.start_plain("ROUND_ROBIN", addresses)]
        gateways = {name: behind_one(stage, members) for name, members in fleets.items()}
        stage.wait_ready(len(NODES))
        bench = Bench(stage, gateways, ours.control_plane or "", folder, load)
        print(f"{envoys} Envoy(s): learning the nodes' speeds", flush=True)
        bench.run("warm-up", [policy], *CONV.flags(CONV.rate_per_s(load), WARM_UP_S))
        yield bench


def behind_one(stage: Stage, gateways: Sequence[Gateway]) -> Gateway:
    """The only one, or a plain Envoy that spreads over all of them."""
    if len(gateways) == 1:
        return gateways[0]
    return stage.start_plain("ROUND_ROBIN", [item.url.removeprefix("http://") for item in gateways])
