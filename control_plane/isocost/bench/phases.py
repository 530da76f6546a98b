"""The run before, during, between and after its faults."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from isocost.bench.result import FailureKind, RequestResult
from isocost.bench.statistics import Summary, percentile, summarise


@dataclass(frozen=True, slots=True)
class OrderedFault:
    """A fault that the run ordered of a node; ``end_s`` None = not ended within the run."""

    node: str
    fault: str
    start_s: float
    end_s: float | None
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PhaseRequests:
    """sent = ok + failed + rejected (429)."""

    sent: int
    ok: int
    failed: int
    rejected: int


@dataclass(frozen=True, slots=True)
class PhaseNode:
    """What one node answered of the phase; the latencies are of its complete answers."""

    name: str
    requests: int
    ttft_p50_ms: float | None
    tpot_p50_ms: float | None
    e2e_p50_ms: float | None


@dataclass(frozen=True, slots=True)
class Phase:
    """The requests whose scheduled time is in [start_s, end_s); ``failures`` by kind.

    Latencies are of complete answers.
    """

    name: str
    start_s: float
    end_s: float
    requests: PhaseRequests
    failures: Mapping[FailureKind, int]
    ttft_ms: Summary
    tpot_ms: Summary
    e2e_ms: Summary
    nodes: tuple[PhaseNode, ...]


def latencies(results: Iterable[RequestResult]) -> tuple[Summary, Summary, Summary]:
    """TTFT, TPOT and end-to-end time of the complete answers, in ms."""
    complete = [result for result in results if result.ok]
    return (
        summarise(result.ttft_ms for result in complete if result.ttft_ms is not None),
        summarise(result.tpot_ms for result in complete if result.tpot_ms is not None),
        summarise(result.e2e_ms for result in complete),
    )


def count_failures(results: Iterable[RequestResult]) -> dict[FailureKind, int]:
    """Failed requests by kind, the most frequent first."""
    counts = Counter(result.failure for result in results if result.failure is not None)
    return dict(counts.most_common())


def phases(
    results: Sequence[RequestResult],
    faults: Sequence[OrderedFault],
    names: Sequence[str],
    duration_s: float,
) -> tuple[Phase, ...]:
    """The run cut at every start and end of a fault; ``names`` are the nodes'. Faults that begin
    after its end are no part of it.

    A phase is named by the faults that are active in it, joined by "+"; without any it is
    "before", "between" or "after" them, or "all" of a run without faults. A name that comes again
    gets a number.
    """
    edges_s = _edges(faults, duration_s)
    groups: list[list[RequestResult]] = [[] for _ in edges_s[1:]]
    for result in results:
        # What was scheduled at the run's very end belongs to its last phase.
        groups[bisect_right(edges_s, result.scheduled_s, hi=len(groups)) - 1].append(result)
    spans = list(pairwise(edges_s))
    begun = sorted(
        (fault for fault in faults if fault.start_s < duration_s), key=lambda fault: fault.start_s
    )
    phase_names = _unique(
        [_name(begun, start_s, end_s) if faults else "all" for start_s, end_s in spans]
    )
    return tuple(
        _phase(name, span, group, names)
        for name, span, group in zip(phase_names, spans, groups, strict=True)
    )


def _edges(faults: Iterable[OrderedFault], duration_s: float) -> list[float]:
    """Where phases begin, and where the last one ends."""
    inner = {
        at_s
        for fault in faults
        for at_s in (fault.start_s, fault.end_s)
        if at_s is not None and 0 < at_s < duration_s
    }
    return [0.0, *sorted(inner), duration_s]


def _name(by_start: Sequence[OrderedFault], start_s: float, end_s: float) -> str:
    active = [
        fault.fault
        for fault in by_start
        if fault.start_s <= start_s and (fault.end_s is None or fault.end_s >= end_s)
    ]
    if active:
        return "+".join(dict.fromkeys(active))
    if not by_start or start_s < by_start[0].start_s:
        return "before"
    return "between" if by_start[-1].start_s >= end_s else "after"


def _unique(names: Iterable[str]) -> list[str]:
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return unique


def _phase(
    name: str, span: tuple[float, float], results: Sequence[RequestResult], names: Iterable[str]
) -> Phase:
    ok = sum(result.ok for result in results)
    rejected = sum(result.rejected for result in results)
    ttft_ms, tpot_ms, e2e_ms = latencies(results)
    by_node: defaultdict[str | None, list[RequestResult]] = defaultdict(list)
    for result in results:
        by_node[result.node].append(result)
    return Phase(
        name=name,
        start_s=span[0],
        end_s=span[1],
        requests=PhaseRequests(
            sent=len(results), ok=ok, failed=len(results) - ok - rejected, rejected=rejected
        ),
        failures=count_failures(results),
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        e2e_ms=e2e_ms,
        nodes=tuple(_phase_node(node, by_node[node]) for node in names),
    )


def _phase_node(name: str, results: Sequence[RequestResult]) -> PhaseNode:
    complete = [result for result in results if result.ok]
    return PhaseNode(
        name=name,
        requests=len(results),
        ttft_p50_ms=percentile((r.ttft_ms for r in complete if r.ttft_ms is not None), 0.50),
        tpot_p50_ms=percentile((r.tpot_ms for r in complete if r.tpot_ms is not None), 0.50),
        e2e_p50_ms=percentile((r.e2e_ms for r in complete), 0.50),
    )
