"""What happened when: counts and latencies per step of the run, by scheduled time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from isocost.bench.control_plane import FleetSample, NodeStatus
from isocost.bench.result import RequestResult
from isocost.bench.statistics import percentile

T = TypeVar("T")

#: Lengths of a step: the shortest that covers the run in at most MAX_STEPS is taken. With 1 s a
#: fault of a few seconds shows; with more points than pixels nothing more would.
STEPS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 3600.0)
MAX_STEPS = 1800


@dataclass(frozen=True, slots=True)
class Series:
    """One value per step, which begins at ``t_s`` (seconds since the run's start).

    A request belongs to the step of its scheduled time, whenever its answer came;
    sent = ok + failed + rejected (429). Latencies are of complete answers; None = there are none.
    """

    step_s: float
    t_s: tuple[float, ...]
    sent: tuple[int, ...]
    ok: tuple[int, ...]
    failed: tuple[int, ...]
    rejected: tuple[int, ...]
    ttft_p50_ms: tuple[float | None, ...]
    ttft_p99_ms: tuple[float | None, ...]
    tpot_p50_ms: tuple[float | None, ...]
    e2e_p50_ms: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class NodeSeries:
    """A node's values on the steps of the run's Series.

    ``requests`` are those that it answered, by scheduled time. The others are the control plane's
    last word in the step; None = it said nothing. ``entropy`` "inf" = never to be picked.
    """

    requests: tuple[int, ...]
    entropy: tuple[float | str | None, ...]
    weight: tuple[float | None, ...]
    state: tuple[str | None, ...]
    in_flight: tuple[int | None, ...]
    running: tuple[float | None, ...]
    waiting: tuple[float | None, ...]
    kv_usage: tuple[float | None, ...]
    sample_age_s: tuple[float | None, ...]
    clock_offset_ms: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The run's time in equal steps from 0."""

    step_s: float
    count: int

    def index(self, at_s: float) -> int:
        return int(at_s // self.step_s)

    @property
    def t_s(self) -> tuple[float, ...]:
        return tuple(number * self.step_s for number in range(self.count))


def steps(results: Sequence[RequestResult], duration_s: float) -> Steps:
    """Steps over the whole run, also where nothing was sent."""
    last_s = max((result.scheduled_s for result in results), default=0.0)
    end_s = max(duration_s, last_s)
    step_s = next((step_s for step_s in STEPS_S if end_s <= step_s * MAX_STEPS), STEPS_S[-1])
    until_end = -int(-duration_s // step_s)
    return Steps(step_s, max(1, until_end, int(last_s // step_s) + 1))


def series(results: Iterable[RequestResult], grid: Steps) -> Series:
    """The run's series."""
    groups: list[list[RequestResult]] = [[] for _ in range(grid.count)]
    for result in results:
        groups[grid.index(result.scheduled_s)].append(result)
    rejected = tuple(sum(result.rejected for result in group) for group in groups)
    complete = [[result for result in group if result.ok] for group in groups]
    ttft_ms = [
        [result.ttft_ms for result in group if result.ttft_ms is not None] for group in complete
    ]
    tpot_ms = [
        [result.tpot_ms for result in group if result.tpot_ms is not None] for group in complete
    ]
    return Series(
        step_s=grid.step_s,
        t_s=grid.t_s,
        sent=tuple(map(len, groups)),
        ok=tuple(map(len, complete)),
        failed=tuple(
            len(group) - len(ok) - refused
            for group, ok, refused in zip(groups, complete, rejected, strict=True)
        ),
        rejected=rejected,
        ttft_p50_ms=tuple(percentile(values, 0.50) for values in ttft_ms),
        ttft_p99_ms=tuple(percentile(values, 0.99) for values in ttft_ms),
        tpot_p50_ms=tuple(percentile(values, 0.50) for values in tpot_ms),
        e2e_p50_ms=tuple(
            percentile((result.e2e_ms for result in group), 0.50) for group in complete
        ),
    )


def node_series(
    names: Iterable[str],
    results: Iterable[RequestResult],
    samples: Iterable[FleetSample],
    grid: Steps,
) -> dict[str, NodeSeries]:
    """The series of every named node."""
    requests: defaultdict[str | None, list[int]] = defaultdict(lambda: [0] * grid.count)
    for result in results:
        requests[result.node][grid.index(result.scheduled_s)] += 1
    seen: defaultdict[str, list[NodeStatus | None]] = defaultdict(lambda: [None] * grid.count)
    for sample in sorted(samples, key=lambda sample: sample.at_s):
        if 0 <= grid.index(sample.at_s) < grid.count:
            for status in sample.nodes or ():
                seen[status.name][grid.index(sample.at_s)] = status
    return {name: _node_series(requests[name], seen[name]) for name in names}


def _node_series(requests: Iterable[int], seen: Sequence[NodeStatus | None]) -> NodeSeries:
    return NodeSeries(
        requests=tuple(requests),
        entropy=_each(seen, lambda status: _entropy(status.entropy)),
        weight=_each(seen, lambda status: status.weight),
        state=_each(seen, lambda status: status.state),
        in_flight=_each(seen, lambda status: status.in_flight),
        running=_each(seen, lambda status: status.running),
        waiting=_each(seen, lambda status: status.waiting),
        kv_usage=_each(seen, lambda status: status.kv_usage),
        sample_age_s=_each(seen, lambda status: status.sample_age_s),
        clock_offset_ms=_each(seen, lambda status: status.clock_offset_ms),
    )


def _each(
    seen: Iterable[NodeStatus | None], value: Callable[[NodeStatus], T | None]
) -> tuple[T | None, ...]:
    return tuple(None if status is None else value(status) for status in seen)


def _entropy(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    return "inf" if value == float("inf") else value
