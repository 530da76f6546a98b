"""A comparison's ratios in the order the page shows them, and what each one says."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.bench.page.read import Data, mapping, real, text
from isocost.bench.page.text import DASH, printable, ratio

#: Metric: how it is called, and whether less of it is better.
_METRICS = {
    "ttft_ms.p50": ("TTFT p50", True),
    "ttft_ms.p99": ("TTFT p99", True),
    "tpot_ms.p50": ("TPOT p50", True),
    "e2e_ms.p99": ("End to end p99", True),
    "goodput": ("Goodput", False),
}


@dataclass(frozen=True, slots=True)
class RatioRow:
    """A target's figure over the baseline's; ``low`` and ``high`` bound the 95 % interval.

    With ``low`` alone the interval has no upper bound. ``reason`` says why there is no ratio.
    """

    target: str
    title: str
    less_is_better: bool | None
    value: float | None
    low: float | None
    high: float | None
    reason: str | None

    @property
    def undecided(self) -> bool:
        """Whether the interval does not exclude that there is no difference."""
        if self.low is None:
            return True
        return self.low <= 1.0 and (self.high is None or self.high >= 1.0)

    @property
    def interval(self) -> str:
        if self.low is None:
            return DASH
        end = "no bound" if self.high is None else ratio(self.high)
        return f"{ratio(self.low)} to {end}"

    @property
    def verdict(self) -> str:
        if self.value is None:
            return self.reason or "not known"
        if self.undecided:
            return "no difference shown"
        if self.less_is_better is None:
            return "lower" if self.value < 1.0 else "higher"
        return "better" if (self.value < 1.0) == self.less_is_better else "worse"


def ratio_rows(data: Data) -> tuple[RatioRow, ...]:
    """Target by target, without the baseline, whose ratios to itself say nothing."""
    baseline = text(data, "baseline")
    return tuple(
        RatioRow(
            target=target,
            title=title,
            less_is_better=less_is_better,
            value=real(figures, "ratio"),
            low=real(figures, "low"),
            high=real(figures, "high"),
            reason=text(figures, "reason"),
        )
        for target, metrics in mapping(data, "ratios").items()
        if target != baseline
        for metric, figures in metrics.items()
        for title, less_is_better in [_METRICS.get(metric, (printable(metric), None))]
    )
