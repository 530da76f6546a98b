"""How discovery is, as plain data for the status page, the metrics and the list of nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from isocost.discovery.state import DiscoveryState
from isocost.metrics import DiscoveryGauges, SourceGauges

#: A list on a page has no more entries than this; its count says how many there are.
_SHOWN = 100


def discovery_status(state: DiscoveryState) -> dict[str, object]:
    """Unknown ages are null. A long list is cut; the number beside it is that of all."""
    return {
        "conflicts_count": len(state.conflicts),
        "conflicts": _shown(state.conflicts),
        "sources": [
            {
                "name": source.name,
                "nodes": source.nodes if source.answered else None,
                "without_agent": source.without_agent,
                "age_s": source.age_s if source.answered else None,
                "error": source.error,
                "held_count": len(source.held),
                "held": _shown(
                    {"name": name, "says": told.name.lower()} for name, told in source.held.items()
                ),
                "refused_count": len(source.refused),
                "refused": _shown(source.refused),
            }
            for source in state.sources
        ],
        "unresolved_count": len(state.unresolved),
        "unresolved": _shown(unresolved_rows(state)),
        "stale_names_count": len(state.stale_names),
        "stale_names": _shown(
            {"name": name, "error": error} for name, error in sorted(state.stale_names.items())
        ),
        "unreachable_count": len(state.unreachable),
        "unreachable": _shown(state.unreachable),
    }


def unresolved_rows(state: DiscoveryState) -> list[dict[str, str]]:
    """Nodes that are not in the roster because their addresses are names without an IP."""
    return [
        {"name": name, "address": address, "error": error}
        for name, (address, error) in sorted(state.unresolved.items())
    ]


def discovery_gauges(state: DiscoveryState) -> DiscoveryGauges:
    return DiscoveryGauges(
        sources={
            source.name: SourceGauges(
                nodes=source.nodes if source.answered else math.nan,
                age_s=source.age_s if source.answered else math.nan,
                error=source.error is not None,
                held=len(source.held),
                refused=len(source.refused),
            )
            for source in state.sources
        },
        conflicts=len(state.conflicts),
        unresolved=len(state.unresolved),
        stale_names=len(state.stale_names),
        unreachable=len(state.unreachable),
    )


def _shown(entries: Iterable[object]) -> list[object]:
    return list(entries)[:_SHOWN]
