"""The report that every run writes: one JSON shape, `isocost.report/1`. Unknown is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from isocost.bench import json_text
from isocost.bench.goodput import Goodput, Slo
from isocost.bench.machine import BUSY_LIMIT
from isocost.bench.outputs import write_text
from isocost.bench.phases import OrderedFault, Phase
from isocost.bench.result import FailureKind
from isocost.bench.series import Series
from isocost.bench.shares import Basis, NodeReport
from isocost.bench.statistics import Percentiles, Summary


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What was measured."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """What was replayed: as many requests in so many seconds, after both scales were applied.

    ``time_scale`` and ``rate_scale`` 1 = as in the source.
    """

    name: str
    requests: int
    duration_s: float
    time_scale: float = 1.0
    rate_scale: float = 1.0
    rate_per_s: float | None = field(init=False)

    def __post_init__(self) -> None:
        rate_per_s = self.requests / self.duration_s if self.duration_s > 0 else None
        object.__setattr__(self, "rate_per_s", rate_per_s)


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
class Lateness:
    """How long after its scheduled time a request was sent, in ms: the generator's own error."""

    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the complete answers and of their prompts; the rate is over the whole run.

    What an answer without usage had is not in ``output``; None = all were without.
    """

    input: int
    output: int | None
    output_per_s: float | None
    answers_without_usage: int


@dataclass(frozen=True, slots=True)
class KindReport:
    """The requests of one class of the trace; the latencies are of the complete answers."""

    requests: int
    ok: int
    ttft_ms: Summary
    tpot_ms: Summary
    e2e_ms: Summary


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
class Samples:
    """How often the control plane was asked for its nodes, and answered."""

    asked: int
    answered: int


@dataclass(frozen=True, slots=True)
class ProcessCpu:
    """A process of the machine and its CPU time over the run, as a fraction of one core."""

    pid: int
    name: str
    cpu_fraction: float


def valid(machine_busy: float | None) -> bool | None:
    """False if the machine was too busy for the figures to mean much; None = not known."""
    return None if machine_busy is None else machine_busy <= BUSY_LIMIT


@dataclass(frozen=True, slots=True)
class Report:
    """A run of one target. The fields are the keys of the JSON, in its order.

    Latencies are of complete answers and count from the scheduled time. ``failures`` are by kind
    and hold the rejected ones too; ``failure_examples`` say of the first of a kind what was said
    about it. ``ttft_cdf`` is [ms, fraction] of the complete answers.
    ``imbalance`` is the largest share of a node / the share it is due by ``imbalance_basis``.
    """

    schema: Literal["isocost.report/1"] = field(default="isocost.report/1", init=False)
    policy: str | None
    target: TargetInfo | None
    trace: TraceInfo | None
    requests: Requests
    failures: Mapping[FailureKind, int]
    failure_examples: Mapping[FailureKind, str]
    ttft_ms: Summary
    tpot_ms: Summary
    e2e_ms: Summary
    ttft_cdf: tuple[tuple[float, float], ...]
    lateness_ms: Lateness
    tokens: Tokens
    slo: Slo
    goodput: Goodput
    nodes: tuple[NodeReport, ...]
    imbalance: float | None
    imbalance_basis: Basis | None
    kinds: Mapping[str, KindReport]
    faults: tuple[OrderedFault, ...]
    phases: tuple[Phase, ...]
    series: Series
    push: Push
    filter: Filter
    samples: Samples | None
    seed: int
    versions: Mapping[str, str | None]
    machine_busy: float | None
    valid: bool | None = field(init=False)
    processes: tuple[ProcessCpu, ...]
    #: The run was cut short.
    interrupted: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "valid", valid(self.machine_busy))

    def to_data(self) -> dict[str, Any]:
        """The report as the JSON's own types."""
        data: dict[str, Any] = json_text.plain(self)
        return data

    def to_json(self) -> str:
        """The report file's text."""
        return json_text.text(self.to_data()) + "\n"

    def write(self, path: Path) -> None:
        """Write the report file; StartError where that is not possible."""
        write_text("--report", path, self.to_json())
