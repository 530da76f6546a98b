"""The piece of a control plane's configuration that a calibration gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isocost.bench.json_text import plain
from isocost.calibrate.plan import ANSWERS, Plan
from isocost.calibrate.result import Calibration
from isocost.config import EntropySettings
from isocost.errors import RejectedError

SCHEMA = "isocost.calibration/1"


@dataclass(frozen=True, slots=True)
class Reference:
    """An earlier calibration, of the card that others are compared with."""

    gpu_kind: str
    card_requests_per_s: float
    entropy: EntropySettings


def read_reference(path: Path, plan: Plan, concurrency: int) -> Reference:
    """From the JSON of a calibration. RejectedError: it cannot be read, or compared with this."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r} is not {SCHEMA!r}")
        kind, capacity = data["subject"]["gpu_kind"], data["capacity"]
        if not kind:
            raise ValueError("it was made without --gpu-kind")
        lengths, at_once = list(data["plan"]["lengths"]), int(capacity["concurrency"])
        if lengths != list(plan.lengths) or at_once != concurrency:
            raise ValueError(
                f"it is of the lengths {lengths} at {at_once} requests at once, this one of "
                f"{list(plan.lengths)} at {concurrency}"
            )
        return Reference(
            gpu_kind=str(kind),
            card_requests_per_s=float(capacity["requests_per_s"])
            / int(data["subject"]["gpu_count"]),
            entropy=EntropySettings(**data["entropy_settings"]),
        )
    except OSError as error:
        raise RejectedError(f"--reference {path}: {error.strerror}") from error
    except (LookupError, TypeError, ArithmeticError) as error:
        raise RejectedError(f"--reference {path}: not the JSON of a calibration") from error
    except ValueError as error:
        raise RejectedError(f"--reference {path}: {error}") from error


def entropy_settings(found: Calibration, reference: Reference | None) -> EntropySettings:
    """This calibration's coefficients for the reference card; or the reference's, and what this
    kind absorbs beside it.
    """
    kind = found.subject.gpu_kind
    if reference is not None:
        card = found.capacity.requests_per_s / found.subject.gpu_count
        capacity = {**reference.entropy.capacity, reference.gpu_kind: 1.0}
        if kind is not None:
            capacity[kind] = _short(card / reference.card_requests_per_s)
        return reference.entropy.model_copy(update={"capacity": capacity})
    entropy = found.entropy
    return EntropySettings(
        kv_per_gb=_short(entropy.kv_per_gb.value),
        age_per_s=_short(entropy.age_per_s.value),
        net_per_mb=_short(entropy.net_per_mb.value),
        reference_concurrency=entropy.reference_concurrency,
        waiting_request=_short(entropy.waiting_request),
        capacity={} if kind is None else {kind: 1.0},
    )


def fragment(found: Calibration, settings: EntropySettings) -> str:
    """YAML that `isocost config check` takes, with where it comes from."""
    subject = found.subject
    cards = "" if subject.gpu_kind is None else f" on {subject.gpu_count} x {subject.gpu_kind}"
    # JSON's numbers and texts are YAML's too.
    lines = [
        f"# isocost calibrate: {_one_line(subject.model)}{cards}, "
        f"{subject.kv_bytes_per_token} bytes of KV cache a token",
        "entropy:",
    ]
    for name, value in settings.model_dump().items():
        lines.append(f"  {name}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def as_json(found: Calibration, settings: EntropySettings) -> dict[str, Any]:
    """The calibration as plain data; ``read_reference`` reads it."""
    subject, causes, fit = found.subject, found.causes, found.causes.fit
    units = zip(fit.names, fit.coefficients, fit.covariance.diagonal() ** 0.5, strict=True)
    return {
        "schema": SCHEMA,
        "subject": plain(subject),
        "plan": {
            "lengths": list(found.plan.lengths),
            "answers": list(ANSWERS),
            "concurrency": found.plan.concurrency,
            "seconds": found.plan.seconds,
        },
        "loads": plain(found.loads),
        "fit": {
            "condition": fit.condition,
            "residual": fit.residual,
            "seconds": {
                name: {"value": float(value), "error": float(error)} for name, value, error in units
            },
        },
        "kv_gb_ms": causes.kv_token_s / subject.kv_bytes_per_token * 1e12,
        "entropy": plain(found.entropy),
        "memory": plain(found.memory),
        "capacity": plain(found.capacity),
        "entropy_settings": settings.model_dump(),
        "fragment": fragment(found, settings),
    }


def _short(value: float) -> float:
    """To the digits that a measurement has."""
    return float(f"{value:.4g}")


def _one_line(text: str) -> str:
    return " ".join(text.split())
