"""What a fake node is told at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from isocost.fake.hardware import Hardware, gpu_uuids

#: Engines whose names the metrics can have.
METRICS = ("vllm", "sglang")


@dataclass(frozen=True)
class FakeNodeSettings:
    """``stream_chunks``: pieces of a streamed answer at most; None = one a token. ``metrics`` is
    one of METRICS. ``machine``: the folder of the fake machine that the node is part of.
    ``served_beside``: names of the models of ``hardware.beside``.
    """

    name: str
    host: str
    port: int
    hardware: Hardware
    served_model_name: str
    metrics: str = "vllm"
    max_num_seqs: int = 128
    stream_chunks: int | None = 8
    seed: int = 0
    machine: Path | None = None
    served_beside: tuple[str, ...] = ()

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        return gpu_uuids(self.name, self.seed, self.hardware.count)

    @property
    def served(self) -> Mapping[str, Hardware]:
        """By name: the cards as the model's engine has them."""
        names = (self.served_model_name, *self.served_beside)
        return dict(zip(names, self.hardware.engines, strict=True))
