"""A machine's topology from any text that tells it."""

from __future__ import annotations

from isocost.telemetry.topology.machine import Topology
from isocost.telemetry.topology.matrix import read_matrix
from isocost.telemetry.topology.nccl import read_nccl


def read_topology(text: str) -> Topology:
    """Of `nvidia-smi topo -m` or of NCCL's topology XML (TopologyError: neither)."""
    return read_nccl(text) if text.lstrip("\ufeff \t\r\n").startswith("<") else read_matrix(text)
