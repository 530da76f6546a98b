"""Goodput: the answers that were good enough for their users, not just the answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from isocost.bench.result import RequestResult
from isocost.errors import RejectedError


@dataclass(frozen=True, slots=True)
class Slo:
    """What an answer must keep to, in ms; None = no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    @classmethod
    def parse(cls, text: str) -> Slo:
        """Read "ttft_ms=850,tpot_ms=50"; RejectedError says what is allowed."""
        names = [field.name for field in fields(cls)]
        slo = cls()
        for part in text.split(","):
            name, _, value = (piece.strip() for piece in part.partition("="))
            if name not in names or getattr(slo, name) is not None:
                raise RejectedError(
                    f"slo: {part.strip()!r} is not allowed; LIMIT=MS once for each of "
                    f"{', '.join(names)}, for example ttft_ms=850,tpot_ms=50"
                )
            slo = replace(slo, **{name: _limit_ms(name, value)})
        return slo

    def met_by(self, result: RequestResult) -> bool:
        """Whether the answer is complete and keeps every limit that is set.

        A time that is not known keeps no limit. An answer of one token has no time per token and
        keeps any.
        """
        if not result.ok:
            return False
        one_token = result.output_tokens is not None and result.output_tokens < 2
        return (
            _kept(result.ttft_ms, self.ttft_ms)
            and (one_token or _kept(result.tpot_ms, self.tpot_ms))
            and _kept(result.e2e_ms, self.e2e_ms)
        )


@dataclass(frozen=True, slots=True)
class Goodput:
    """Complete answers within the SLO: per second of the run, and of the requests sent.

    What failed was sent and is not good. None = nothing was sent, or in no time.
    """

    requests_per_s: float | None
    fraction: float | None


def goodput(results: Iterable[RequestResult], slo: Slo, duration_s: float) -> Goodput:
    """The goodput of a run of ``duration_s``."""
    good = [slo.met_by(result) for result in results]
    return Goodput(
        requests_per_s=sum(good) / duration_s if good and duration_s > 0 else None,
        fraction=sum(good) / len(good) if good else None,
    )


def _kept(value: float | None, limit: float | None) -> bool:
    return limit is None or (value is not None and value <= limit)


def _limit_ms(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise RejectedError(f"slo: {name}={text} is not allowed; a number of ms above 0")
    return value
