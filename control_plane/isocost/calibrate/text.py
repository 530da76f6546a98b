"""A calibration as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from isocost.calibrate.fit import MAX_CONDITION
from isocost.calibrate.memory import Memory
from isocost.calibrate.result import Calibration

#: KB of a token of a prompt and of an answer by document A's formula.
_FORMULA_KB = (200, 1500)


def report(found: Calibration) -> str:
    return "\n".join([*_loads(found), "", *_causes(found), "", *_rest(found)])


def _loads(found: Calibration) -> Iterator[str]:
    yield "prompt  answer  at once   TPOT ms   rise ms   cost of a request, ms x s"
    yield f"{'none':>6}{'':>17}{found.causes.step_s * 1e3:10.3f}"
    for load in found.loads:
        yield (
            f"{load.input_tokens:6d}{load.output_tokens:8d}{load.concurrency:9d}"
            f"{load.token_ms:10.3f}{load.rise_ms:10.3f}{load.request_cost_ms_s:10.4g}"
        )


def _causes(found: Calibration) -> Iterator[str]:
    fit, kv_bytes = found.causes.fit, found.subject.kv_bytes_per_token
    errors = fit.covariance.diagonal() ** 0.5
    yield "what adds to a step of the engine, in ms, with standard errors"
    rows = [
        ("nothing", 0, 1e3),
        ("an open request", 1, 1e3),
        ("a GB of KV cache", 2, 1e12 / kv_bytes),
        *(
            (f"a prompt of {length}, once", 3 + place, 1e3)
            for place, length in enumerate(found.causes.lengths)
        ),
    ]
    for name, column, unit in rows:
        yield f"  {name:24}{fit.coefficients[column] * unit:10.4g} +- {errors[column] * unit:.2g}"
    yield (
        f"  condition number {fit.condition:.1f} (refused above {MAX_CONDITION:g}), "
        f"root mean square error {fit.residual:.2%}"
    )


def _rest(found: Calibration) -> Iterator[str]:
    entropy, capacity = found.entropy, found.capacity
    yield "coefficients of the entropy"
    for name, estimate in (
        ("kv_per_gb", entropy.kv_per_gb),
        ("age_per_s", entropy.age_per_s),
        ("net_per_mb", entropy.net_per_mb),
    ):
        yield f"  {name:24}{estimate.value:10.4g} +- {estimate.error:.2g}"
    yield f"  {'waiting_request':24}{entropy.waiting_request:10.4g}"
    yield from _memory(found.memory, found.subject.kv_bytes_per_token)
    yield (
        f"capacity: {capacity.requests_per_s:.3g} requests/s of all lengths together, "
        f"{capacity.concurrency} at once; TPOT {capacity.token_s * 1e3:.2f} ms, expected by the "
        f"fit {capacity.expected_token_s * 1e3:.2f} ms"
    )


def _memory(memory: Memory | None, kv_bytes: int) -> Iterator[str]:
    if memory is None:
        yield "memory: not measured, the engine does not tell its KV pool and its use"
        return
    kb = kv_bytes / 1e3
    yield "memory of a request in KB, with standard errors"
    for name, estimate, formula in (
        ("a token of its prompt", memory.input_token, _FORMULA_KB[0]),
        ("a token of its answer", memory.output_token, _FORMULA_KB[1]),
    ):
        value, error = estimate.value * kb, estimate.error * kb
        yield f"  {name:24}{value:10.4g} +- {error:.2g}   (not calibrated: {formula})"
    yield f"  {'besides':24}{memory.request.value * kb:10.4g} +- {memory.request.error * kb:.2g}"
