"""What a fake node is told at its start."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.fake.hardware import Hardware

#: Engines whose names the metrics can have.
METRICS = ("vllm", "sglang")


@dataclass(frozen=True)
class FakeNodeSettings:
    """``stream_chunks``: pieces of a streamed answer at most; None = one a token. ``metrics`` is
    one of METRICS.
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

    @property
    def max_length_tokens(self) -> int:
        """Of prompt and answer together: what the model and the KV cache allow."""
        return min(self.hardware.model.max_length_tokens, self.hardware.kv_pool_tokens)
