"""The demo's fleet: unequal GPUs, so that an equal number of requests would be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from isocost.fake.hardware import Hardware
from isocost.fake.machine import node_keys
from isocost.fake.models import model_named
from isocost.fake.settings import FakeNodeSettings

MODEL = "llama-3.1-8b"

#: Two nodes a host, two hosts a rack: the alternates of a pick are always on other hosts.
_HOSTS = (
    ("rack-a", "host-a1", "H100"),
    ("rack-a", "host-a2", "H100"),
    ("rack-b", "host-b1", "H100"),
    ("rack-b", "host-b2", "A100"),
)
_NODES_PER_HOST = 2
#: What a card takes of the demo's trace beside an H100, as the fake engine's speeds have it.
CAPACITY = {"H100": 1.0, "A100": 0.45}


@dataclass(frozen=True, slots=True)
class DemoNode:
    """One fake node; it listens on 127.0.0.1."""

    name: str
    rack: str
    host: str
    gpu_kind: str
    port: int

    def settings(self, seed: int, machine: Path) -> FakeNodeSettings:
        """The node as `isocost fake-node` starts it."""
        return FakeNodeSettings(
            name=self.name,
            host="127.0.0.1",
            port=self.port,
            hardware=Hardware(self.gpu_kind, 1, model_named(MODEL)),
            served_model_name=MODEL,
            seed=seed,
            machine=machine,
        )

    def agent_entry(self, seed: int = 0) -> Mapping[str, object]:
        """The node as the agent's configuration names it."""
        model = model_named(MODEL)
        return {
            "name": self.name,
            "address": f"127.0.0.1:{self.port}",
            "rack": self.rack,
            "host": self.host,
            "gpu_kind": self.gpu_kind,
            "gpu_count": 1,
            "models": [
                {
                    "name": MODEL,
                    "weight_bytes": model.weight_bytes,
                    "kv_bytes_per_token": model.kv_bytes_per_token,
                    "max_length_tokens": model.max_length_tokens,
                }
            ],
            **node_keys(self.name, f"http://127.0.0.1:{self.port}", seed),
        }


def fleet(port_base: int) -> tuple[DemoNode, ...]:
    """Eight nodes in two racks on consecutive ports."""
    return tuple(
        DemoNode(
            name=f"{kind.lower()}-{host.removeprefix('host-')}-{index}",
            rack=rack,
            host=host,
            gpu_kind=kind,
            port=port_base + position * _NODES_PER_HOST + index,
        )
        for position, (rack, host, kind) in enumerate(_HOSTS)
        for index in range(_NODES_PER_HOST)
    )


def by_rack(nodes: tuple[DemoNode, ...]) -> Mapping[str, tuple[DemoNode, ...]]:
    racks = dict.fromkeys(node.rack for node in nodes)
    return {rack: tuple(node for node in nodes if node.rack == rack) for rack in racks}
