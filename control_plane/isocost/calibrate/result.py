"""What a calibration found."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.calibrate.capacity import Capacity, find_capacity
from isocost.calibrate.causes import Causes, find_causes
from isocost.calibrate.entropy import EntropyCoefficients, entropy_coefficients, lives
from isocost.calibrate.measure import Measured
from isocost.calibrate.memory import Memory, find_memory
from isocost.calibrate.plan import Plan
from isocost.config import EntropySettings
from isocost.errors import FitError


@dataclass(frozen=True, slots=True)
class Subject:
    """What was measured, by whom it is known."""

    url: str
    model: str
    gpu_kind: str | None
    gpu_count: int
    kv_bytes_per_token: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One load; ``request_cost_ms_s``: the rise of the probe's time per token, times the time,
    over the requests that were answered in it.
    """

    input_tokens: int
    output_tokens: int
    concurrency: int
    token_ms: float
    rise_ms: float
    request_cost_ms_s: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """``memory`` is None where the engine does not tell its KV pool well enough."""

    subject: Subject
    plan: Plan
    causes: Causes
    loads: tuple[LoadResult, ...]
    entropy: EntropyCoefficients
    memory: Memory | None
    capacity: Capacity


def evaluate(
    subject: Subject, plan: Plan, alone: list[Measured], loads: list[Measured], mix: Measured
) -> Calibration:
    """FitError: no coefficients can be taken from these."""
    causes = find_causes([*alone, *loads], plan.lengths)
    requests = lives(loads)
    try:
        memory = find_memory([*alone, *loads, mix])
    except FitError:
        memory = None
    rises = []
    for one, life in zip(loads, requests, strict=True):
        assert one.load is not None
        rise_ms = (one.token_s - causes.step_s) * 1e3
        # Each worker's request holds its place for the time from one answer to the next.
        cost = rise_ms * life.open_s / one.load.concurrency
        rises.append(
            LoadResult(
                life.shape.input_tokens,
                life.shape.output_tokens,
                one.load.concurrency,
                one.token_s * 1e3,
                rise_ms,
                cost,
            )
        )
    return Calibration(
        subject=subject,
        plan=plan,
        causes=causes,
        loads=tuple(rises),
        entropy=entropy_coefficients(
            causes, requests, subject.kv_bytes_per_token, EntropySettings()
        ),
        memory=memory,
        capacity=find_capacity(mix, causes),
    )
