"""Targets against each other: how many times the first one's latency and goodput each has.

`isocost.comparison/1`. The rounds pair the targets: in each, all were sent the same requests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from isocost.bench import interval, json_text
from isocost.bench.assemble import Measurement, assemble
from isocost.bench.goodput import Slo
from isocost.bench.report import ProcessCpu, Report, TraceInfo, valid
from isocost.bench.result import RequestResult
from isocost.bench.rounds import RoundResults

Metric = Literal["ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "e2e_ms.p99", "goodput"]
METRICS: tuple[Metric, ...] = get_args(Metric)

#: A target's results by round.
Rounds = Mapping[int, Sequence[RequestResult]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Target / baseline of one metric with its 95 % interval.

    ``method`` "rounds": the geometric mean of the rounds' ratios, Student's t over their logs;
    taken where at least 3 rounds have the ratio, and all of them. "blocks": the ratio of the
    figures over all requests, a block bootstrap within the rounds. None = not defined, and
    ``reason`` says why; ``high`` alone None = no upper bound. Of goodput the fraction is compared:
    both were sent the same requests, and the slowest answer, which ends a run, is mere noise in
    the rate.
    """

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    method: Literal["rounds", "blocks"] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several targets in interleaved rounds. The fields are the keys of the JSON, in its order."""

    schema: Literal["isocost.comparison/1"] = field(default="isocost.comparison/1", init=False)
    baseline: str
    rounds: int
    targets: Mapping[str, Report]
    ratios: Mapping[str, Mapping[Metric, Ratio]]
    machine_busy: float | None
    valid: bool | None = field(init=False)
    processes: tuple[ProcessCpu, ...]
    trace: TraceInfo | None
    seed: int
    versions: Mapping[str, str | None]
    #: The run was cut short.
    interrupted: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "valid", valid(self.machine_busy))

    def to_data(self) -> dict[str, Any]:
        """The comparison as the JSON's own types."""
        data: dict[str, Any] = json_text.plain(self)
        return data


def compare(rounds: Sequence[RoundResults], runs: Mapping[str, Measurement]) -> Comparison:
    """Compare ``runs`` (target's name -> what it measured over all rounds); the first is the
    baseline, and what concerns the whole run (machine, processes, trace, seed, interrupt) is taken
    from it.
    """
    baseline, run = next(iter(runs.items()))
    turns: defaultdict[str, dict[int, Sequence[RequestResult]]] = defaultdict(dict)
    for turn in rounds:
        turns[turn.target][turn.round] = turn.results
    reports = {name: assemble(measured) for name, measured in runs.items()}
    return Comparison(
        baseline=baseline,
        rounds=len({turn.round for turn in rounds}),
        targets=reports,
        ratios={
            name: ratios(turns[name], turns[baseline], run.slo, run.seed)
            for name in runs
            if name != baseline
        },
        machine_busy=run.machine_busy,
        processes=reports[baseline].processes,
        trace=run.trace,
        seed=run.seed,
        versions=run.versions,
        interrupted=run.interrupted,
    )


def ratios(target: Rounds, baseline: Rounds, slo: Slo, seed: int) -> dict[Metric, Ratio]:
    """Every metric's ratio of ``target`` to ``baseline``, over the rounds that both have."""
    both = sorted(target.keys() & baseline.keys())
    if not both:
        return dict.fromkeys(METRICS, Ratio(reason="no round was completed by both"))
    pairs = [(target[number], baseline[number]) for number in both]
    return {name: _ratio(pairs, *_measure(name, slo), seed) for name in METRICS}


#: A request's value of a metric; None where it has none.
Value = Callable[[RequestResult], float | None]


def _measure(name: Metric, slo: Slo) -> tuple[Value, interval.Statistic]:
    """What is taken of each request, and what of those values makes the figure."""
    match name:
        case "ttft_ms.p50":
            return lambda r: r.ttft_ms if r.ok else None, interval.weighted_quantile(0.50)
        case "ttft_ms.p99":
            return lambda r: r.ttft_ms if r.ok else None, interval.weighted_quantile(0.99)
        case "tpot_ms.p50":
            return lambda r: r.tpot_ms if r.ok else None, interval.weighted_quantile(0.50)
        case "e2e_ms.p99":
            return lambda r: r.e2e_ms if r.ok else None, interval.weighted_quantile(0.99)
        case "goodput":
            return lambda r: float(slo.met_by(r)), interval.weighted_mean


def _ratio(
    pairs: Sequence[tuple[Sequence[RequestResult], Sequence[RequestResult]]],
    value: Value,
    statistic: interval.Statistic,
    seed: int,
) -> Ratio:
    blocked = [_blocked(target, baseline, value) for target, baseline in pairs]
    logs = [
        interval.log_ratio(_figure(target, statistic), _figure(baseline, statistic))
        for target, baseline in blocked
    ]
    if len(logs) >= interval.MIN_ROUNDS and all(map(math.isfinite, logs)):
        found = interval.over_rounds(logs)
        return Ratio(found.ratio, found.low, found.high, "rounds")
    target, baseline = (_joined([pair[side] for pair in blocked]) for side in (0, 1))
    over_blocks = interval.over_blocks(target, baseline, len(pairs), statistic, seed)
    if over_blocks is None:
        return Ratio(reason=_why_undefined(target, baseline, statistic))
    return Ratio(over_blocks.ratio, over_blocks.low, over_blocks.high, "blocks")


def _blocked(
    target: Sequence[RequestResult], baseline: Sequence[RequestResult], value: Value
) -> tuple[interval.Blocked, interval.Blocked]:
    """One round's values of both targets, with the blocks of their common schedule."""
    times_s = [result.scheduled_s for result in (*target, *baseline)]
    edges_s = interval.block_edges(times_s) if times_s else np.zeros(interval.BLOCKS)

    def sort(results: Sequence[RequestResult]) -> interval.Blocked:
        known = [(v, r.scheduled_s) for r in results if (v := value(r)) is not None]
        table = np.array(sorted(known), dtype=np.float64).reshape(-1, 2)
        block = np.searchsorted(edges_s, table[:, 1], side="right") - 1
        return interval.Blocked(table[:, 0], block.astype(np.int64))

    return sort(target), sort(baseline)


def _joined(rounds: Sequence[interval.Blocked]) -> interval.Blocked:
    """All rounds' values as one ascending list; the blocks are numbered through."""
    empty = np.zeros(0)
    values = np.concatenate([empty, *(part.values for part in rounds)])
    block = np.concatenate(
        [empty, *(part.block + number * interval.BLOCKS for number, part in enumerate(rounds))]
    )
    order = np.argsort(values, kind="stable")
    return interval.Blocked(values[order], block[order].astype(np.int64))


def _figure(part: interval.Blocked, statistic: interval.Statistic) -> float:
    return statistic(part.values, np.ones(part.values.size, dtype=np.int64))


def _why_undefined(
    target: interval.Blocked, baseline: interval.Blocked, statistic: interval.Statistic
) -> str:
    for name, part in (("baseline", baseline), ("target", target)):
        figure = _figure(part, statistic)
        if math.isnan(figure):
            return f"the {name} has no value"
        if figure <= 0:
            return f"the {name}'s value is {figure:g}"
    raise AssertionError("both figures are positive")
