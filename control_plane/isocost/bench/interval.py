"""How sure a ratio of two targets is: 95 % confidence intervals of log ratios.

Logs, because a ratio and its inverse must be treated alike, and because latencies scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

#: 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of
#: Statistical Methods, 1.3.6.7.2). Beyond 30 the last is kept: it is at most 5 % wide.
_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
#: Fewer rounds give Student's t so few degrees of freedom that the interval says nothing.
MIN_ROUNDS = 3
#: Blocks of a round that are drawn. Neighbours in time share queues, so single requests are not
#: independent; with fewer blocks the quantiles of the draws get coarse, with more the blocks get
#: shorter than a queue lives.
BLOCKS = 30
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio and its 95 % interval; ``high`` None = no upper bound."""

    ratio: float
    low: float
    high: float | None


def over_rounds(log_ratios: Sequence[float]) -> Interval:
    """Student's t over the log ratios of at least MIN_ROUNDS rounds, one each.

    The ratio is their geometric mean. What differs between rounds, whatever its cause, is in the
    interval.
    """
    count = len(log_ratios)
    mean = math.fsum(log_ratios) / count
    variance = math.fsum((value - mean) ** 2 for value in log_ratios) / (count - 1)
    half = _T_975[min(count - 1, len(_T_975)) - 1] * math.sqrt(variance / count)
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


@dataclass(frozen=True, slots=True)
class Blocked:
    """A target's values of one metric in ascending order, and the block that each belongs to.

    Blocks are numbered through all rounds: round 0 has 0 to BLOCKS - 1.
    """

    values: Floats
    block: Counts


Statistic = Callable[[Floats, Counts], float]


def over_blocks(
    target: Blocked, baseline: Blocked, rounds: int, statistic: Statistic, seed: int
) -> Interval | None:
    """A block bootstrap within rounds (Künsch 1989, with fixed blocks); None where a ratio of the
    values as measured is not defined.

    Each draw takes BLOCKS blocks of every round with replacement, the same ones of both targets,
    which were sent the same requests; the interval is the draws' 2.5 % to 97.5 %. Differences
    between rounds are not in it: what disturbs one target's only turn looks like its own.
    """
    once = np.ones(rounds * BLOCKS, dtype=np.int64)
    ratio = _log_ratio(target, baseline, once, statistic)
    if not math.isfinite(ratio):
        return None
    random = np.random.default_rng(seed)
    even = [1 / BLOCKS] * BLOCKS
    draws = random.multinomial(BLOCKS, even, size=(RESAMPLES, rounds)).reshape(RESAMPLES, -1)
    logs = [_log_ratio(target, baseline, draw, statistic) for draw in draws]
    defined = np.array([value for value in logs if not math.isnan(value)])
    # Neighbours among the draws, not values between them: some may be infinite.
    low = float(np.quantile(defined, 0.025, method="lower"))
    high = float(np.quantile(defined, 0.975, method="higher"))
    return Interval(math.exp(ratio), math.exp(low), math.exp(high) if high < math.inf else None)


def block_edges(times_s: Sequence[float]) -> Floats:
    """Where a round's blocks begin, so that each holds about as many of ``times_s``."""
    ordered = np.sort(np.asarray(times_s, dtype=np.float64))
    return ordered[len(ordered) * np.arange(BLOCKS) // BLOCKS]


def weighted_mean(values: Floats, counts: Counts) -> float:
    """The mean with ``counts[i]`` of ``values[i]``; NaN of nothing."""
    total = int(counts.sum())
    return float(values @ counts) / total if total else math.nan


def weighted_quantile(fraction: float) -> Statistic:
    """The quantile (as in statistics.quantile) with ``counts[i]`` of the ascending values[i]."""

    def statistic(values: Floats, counts: Counts) -> float:
        until = np.cumsum(counts)
        if not until.size or until[-1] == 0:
            return math.nan
        position = fraction * (until[-1] - 1)
        below = math.floor(position)
        above = min(below + 1, until[-1] - 1)
        low, high = values[np.searchsorted(until, (below, above), side="right")]
        return float(low + (high - low) * (position - below))

    return statistic


def log_ratio(target: float, baseline: float) -> float:
    """The log of target / baseline; infinite where one is 0, NaN where both are or one is
    unknown or below."""
    if math.isnan(target) or math.isnan(baseline) or min(target, baseline) < 0:
        return math.nan
    if target == 0 or baseline == 0:
        return math.nan if target == baseline else math.copysign(math.inf, target - baseline)
    return math.log(target / baseline)


def _log_ratio(target: Blocked, baseline: Blocked, draw: Counts, statistic: Statistic) -> float:
    return log_ratio(
        statistic(target.values, draw[target.block]),
        statistic(baseline.values, draw[baseline.block]),
    )
