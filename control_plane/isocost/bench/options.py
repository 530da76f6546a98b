"""What the user of a bench run can choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from isocost.bench.condition import Condition
from isocost.bench.goodput import Slo
from isocost.bench.target import Target


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The flags of `isocost bench`; None or empty = not given."""

    targets: tuple[Target, ...]
    model: str
    trace: str
    format: str | None
    duration_s: float | None
    rate: float | None
    time_scale: float
    rate_scale: float
    rounds: int
    slo: Slo
    conditions: tuple[Condition, ...]
    seed: int
    max_connections: int
    request_timeout_s: float
    connect_timeout_s: float
    headers: Mapping[str, str]
    body: Mapping[str, object]
    control_plane: str | None
    access_log: Path | None
    scenario: Path | None
    report: Path | None
    html: Path | None
    json: bool
