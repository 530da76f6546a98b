"""On a machine with GPUs: each field of the agent's sample beside nvidia-smi's.

    PYTHONPATH=.:control_plane python -m tests.device.sample_beside_nvidia_smi

Exit code 1: a field differs by more than it changes between two readings, or a GPU is missing.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from isocost.cli.columns import aligned
from isocost.model import Signal
from isocost.telemetry.nvml.process import Gpu, Nvml

MIB = 2.0**20
#: The driver may have to wake the GPUs.
PATIENCE_S = 60.0
UNKNOWN = ("[N/A]", "N/A", "[Not Supported]", "Not Supported")


class Field(NamedTuple):
    """``query`` is nvidia-smi's name; its number times ``unit`` is ours, within ``tolerance``."""

    query: str
    read: Callable[[Gpu], Signal]
    unit: float = 1.0
    tolerance: float = 0.0


def _condition(name: str) -> Callable[[Gpu], Signal]:
    def read(gpu: Gpu) -> Signal:
        signal: Signal = getattr(gpu.condition, name)
        return signal

    return read


FIELDS = (
    Field("memory.total", lambda gpu: gpu.load.memory_total_bytes, MIB, MIB),
    Field("memory.reserved", lambda gpu: gpu.load.memory_reserved_bytes, MIB, 2 * MIB),
    Field("memory.used", lambda gpu: gpu.load.memory_used_bytes, MIB, 64 * MIB),
    Field("memory.free", lambda gpu: gpu.load.memory_free_bytes, MIB, 64 * MIB),
    Field("utilization.gpu", lambda gpu: gpu.load.gpu_utilisation, 0.01, 0.3),
    Field("utilization.memory", lambda gpu: gpu.load.memory_busy, 0.01, 0.3),
    Field("temperature.gpu", _condition("temperature_celsius"), 1.0, 3.0),
    Field("power.draw", _condition("power_watts"), 1.0, 50.0),
    Field("pcie.link.gen.current", _condition("pcie_generation"), 1.0, 4.0),
    Field("pcie.link.gen.max", _condition("pcie_generation_max")),
    Field("pcie.link.width.current", _condition("pcie_width")),
    Field("pcie.link.width.max", _condition("pcie_width_max")),
    Field("ecc.errors.corrected.volatile.total", _condition("ecc_corrected")),
    Field("ecc.errors.uncorrected.volatile.total", _condition("ecc_uncorrected")),
)


def main() -> int:
    told = nvidia_smi()
    gpus = {gpu.identity.uuid: gpu for gpu in asyncio.run(sample())}
    rows, good = [("GPU", "FIELD", "AGENT", "NVIDIA-SMI", "")], bool(told)
    for uuid, theirs in told.items():
        gpu = gpus.get(uuid)
        if gpu is None or gpu.condition is None:
            rows.append((uuid, "-", "not read", "listed", "MISSING"))
            good = False
            continue
        for field in FIELDS:
            ours, text = field.read(gpu), theirs[field.query]
            same = agrees(ours, text, field)
            good = good and same
            number = f"{ours.value / field.unit:g}" if ours.known else ours.state.name.lower()
            rows.append((uuid, field.query, number, text, "" if same else "DIFFERS"))
    print("\n".join(aligned(rows)))
    return 0 if good else 1


def agrees(ours: Signal, text: str, field: Field) -> bool:
    if text in UNKNOWN or not ours.known:
        return text in UNKNOWN and not ours.known
    value = int(text, 16) if text.startswith("0x") else float(text)
    return abs(ours.value - value * field.unit) <= field.tolerance


def nvidia_smi() -> Mapping[str, Mapping[str, str]]:
    """By UUID, its fields as text."""
    queries = ("uuid", *(field.query for field in FIELDS))
    command = ["nvidia-smi", f"--query-gpu={','.join(queries)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    lines = [
        [cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line
    ]
    return {cells[0]: dict(zip(queries, cells, strict=True)) for cells in lines}


async def sample() -> tuple[Gpu, ...]:
    """As the agent reads them, once both loops have."""
    nvml = Nvml()
    reading = asyncio.create_task(nvml.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await nvml.heard()
        return nvml.gpus()
    finally:
        reading.cancel()
        await asyncio.wait([reading])


if __name__ == "__main__":
    sys.exit(main())
