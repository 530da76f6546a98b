"""The bound that no burst may break: what a node may get of the requests of one table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tests.integration.harness.fleet import table_of
from tests.integration.harness.table_recorder import Recorded

#: A node may have so many times its capacity's share of the requests, or so many more than it.
GROWTH, SLACK = 1.25, 2.0
#: Shares are 32-bit numbers.
_ROUNDING = 1e-3


def per_table(entries: Iterable[Mapping[str, Any]]) -> dict[int, Counter[str]]:
    """Requests by node, for each table that requests of the access log were picked from."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        counts[table_of(dict(entry))][entry["node"]] += 1
    return counts


def beyond_bound(
    counts: Mapping[int, Counter[str]], tables: Mapping[int, Recorded]
) -> Collection[str]:
    """What breaks the bound, in words. A table that was skipped because the next one was there
    already had the capacities of the one before.
    """
    beyond = []
    for version, by_node in counts.items():
        recorded = max((known for known in tables if known <= version), default=min(tables))
        for node, count in by_node.items():
            due = by_node.total() * tables[recorded].capacity_share[node]
            if count > max(GROWTH * due, due + SLACK) + _ROUNDING:
                beyond.append(f"{node}: {count} of {by_node.total()}, due {due:.2f}")
    return beyond
