"""The report that every run writes: one JSON shape, `isocost.report/1`. Unknown is null."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from isocost.bench.machine import BUSY_LIMIT
from isocost.bench.statistics import Summary
from isocost.errors import StartError

SCHEMA = "isocost.report/1"


@dataclass(frozen=True, slots=True)
class Requests:
    """sent = ok + failed + rejected. ``rejected`` were answered 429, ``retried`` took more than
    one attempt."""

    sent: int
    ok: int
    failed: int
    retried: int | None
    rejected: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the complete answers and of their prompts."""

    input: int
    output: int
    output_per_s: float


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node: its part of the requests beside its part of the weights."""

    name: str
    rack: str
    requests: int
    share: float | None
    weight_share: float | None
    ttft_p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Percentiles:
    p50: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """How fresh the weights were: time between tables, and a table's age when it decided."""

    interval_ms: Percentiles
    age_at_pick_ms: Percentiles


@dataclass(frozen=True, slots=True)
class Filter:
    wasm_bytes: int | None
    envoy_cpu_us_per_request: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """A run. ``imbalance`` is the largest share / weight share of a node.

    Latencies are of complete answers and count from the scheduled time.
    """

    policy: str
    requests: Requests
    ttft_ms: Summary | None
    tpot_ms: Summary | None
    e2e_ms: Summary | None
    tokens: Tokens
    nodes: tuple[NodeReport, ...]
    imbalance: float | None
    push: Push
    filter: Filter
    seed: int
    versions: Mapping[str, str | None]
    machine_busy: float | None

    @property
    def valid(self) -> bool | None:
        """False if the machine was too busy for the figures to mean much; None = not known."""
        return None if self.machine_busy is None else self.machine_busy <= BUSY_LIMIT

    def to_json(self) -> str:
        """The report file's text."""
        data = {"schema": SCHEMA, **asdict(self), "valid": self.valid}
        for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
            # Readers index the percentiles: a distribution of nothing has them too, as null.
            data[name] = data[name] or dict.fromkeys(field.name for field in fields(Summary))
        return json.dumps(data, indent=2, allow_nan=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the report file; StartError where that is not possible."""
        try:
            path.write_text(self.to_json(), encoding="utf-8")
        except OSError as error:
            raise StartError(f"--report {path}: {error}") from error
