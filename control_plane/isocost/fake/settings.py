"""What a fake node is told at its start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isocost.fake.hardware import Hardware, gpu_uuids

#: Engines whose names the metrics can have.
METRICS = ("vllm", "sglang")


@dataclass(frozen=True)
class FakeNodeSettings:
    """``stream_chunks``: pieces of a streamed answer at most; None = one a token. ``metrics`` is
    one of METRICS. ``machine``: the folder of the fake machine that the node is part of.
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

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        return gpu_uuids(self.name, self.seed, self.hardware.count)

    @property
    def max_length_tokens(self) -> int:
        """Of prompt and answer together: what the model and the KV cache allow."""
        return min(self.hardware.model.max_length_tokens, self.hardware.kv_pool_tokens)
