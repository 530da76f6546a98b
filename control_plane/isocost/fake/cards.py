"""GPU cards: what a fake node says about them, and what the speed of a model depends on."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU of a kind, by the ``name`` that NVML gives it. ``reserved_bytes`` is what the driver
    keeps for itself.

    ``bf16_flops`` (dense) and ``memory_bytes_per_s`` are the maker's peaks. Power in watts:
    ``idle_w`` without a process, ``loaded_w`` with a model but no work, ``serving_w`` at full
    utilisation, ``limit_w`` the default limit.
    """

    name: str
    vram_total_bytes: int
    reserved_bytes: int
    bf16_flops: float
    memory_bytes_per_s: float
    nvlink_links: int
    nvlink_link_bytes_per_s: float
    idle_w: float
    loaded_w: float
    serving_w: float
    limit_w: float

    @property
    def nvlink_bytes_per_s(self) -> float:
        """All links together, in one direction."""
        return self.nvlink_links * self.nvlink_link_bytes_per_s


# Memory, links, idle power and limit: nvidia-smi captures in utkuozdemir/nvidia_gpu_exporter (MIT,
# H100 80GB HBM3) and leptonai/gpud (Apache-2.0, A100-SXM4-80GB). H100 with a model: 120 W at rest,
# 207 W serving an 8B. A100: Acme's clusters (CC-BY 4.0) rest at 63 W and at 96 W with a process;
# Splitwise (MIT) draws 44 to 74 % of 400 W with Llama2-70B on 8 to 2 cards, 59 % on 4.
CARDS = {
    "H100": Card(
        name="NVIDIA H100 80GB HBM3",
        vram_total_bytes=81_559 * MIB,
        reserved_bytes=479 * MIB,
        bf16_flops=989e12,
        memory_bytes_per_s=3.35e12,
        nvlink_links=18,
        nvlink_link_bytes_per_s=26.562e9,
        idle_w=70.0,
        loaded_w=120.0,
        serving_w=207.0,
        limit_w=700.0,
    ),
    "A100": Card(
        name="NVIDIA A100-SXM4-80GB",
        vram_total_bytes=81_920 * MIB,
        reserved_bytes=869 * MIB,
        bf16_flops=312e12,
        memory_bytes_per_s=2.039e12,
        nvlink_links=12,
        nvlink_link_bytes_per_s=25e9,
        idle_w=63.0,
        loaded_w=96.0,
        serving_w=236.0,
        limit_w=400.0,
    ),
}
