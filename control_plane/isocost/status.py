"""The control plane's state as plain data: for the pages, the commands and the metrics."""

from __future__ import annotations

import math

from isocost.manual import json_of
from isocost.metrics import FleetGauges
from isocost.model import Signal
from isocost.observe.fleet import FleetObserver
from isocost.pipeline import Pipeline
from isocost.push.ads import AdsService
from isocost.score.columns import Column


def node_rows(pipeline: Pipeline, observer: FleetObserver) -> list[dict[str, object]]:
    """One object per node. Unknown numbers are null; an infinite entropy is the text "inf"."""
    decision, observed = pipeline.decision, pipeline.observed
    if decision is None or observed is None:
        return []
    rows: list[dict[str, object]] = []
    for index, node in enumerate(pipeline.nodes):
        sample = pipeline.samples[index]
        state = decision.state
        age_s = pipeline.tick_s - float(state.since_s[index])
        entropy = float(decision.entropy[index])
        rows.append(
            {
                "name": node.name,
                "instance_id": node.instance_id,
                "address": node.address,
                "rack": node.rack,
                "host": node.host,
                "gpu_kind": node.gpu_kind,
                "gpu_count": node.gpu_count,
                "models": [model.name for model in node.models],
                "state": state.standings[index].state.name.lower(),
                "reason": state.standings[index].reason.value,
                "state_age_s": age_s,
                "since_unix_s": pipeline.tick_unix_s - age_s,
                "share_factor": float(state.factor[index]),
                "failure_ratio": float(state.evidence.failure_ratio[index]),
                "weight": float(decision.weight[index]),
                "entropy": entropy if math.isfinite(entropy) else "inf",
                "in_flight": int(observed.in_flight[index]),
                "running": _known(sample.engine.running) if sample else None,
                "waiting": _known(sample.engine.waiting) if sample else None,
                "free_vram_share": _cell(decision.free_share, index),
                "pcie_utilisation": _cell(decision.pcie_utilisation, index),
                "latency_ms": _cell(decision.latency_ms, index),
                "health": float(decision.health[index]),
                "sample_age_s": pipeline.ages_s[index] if sample else None,
                "outcomes": observer.outcomes(node.id),
                **json_of(pipeline.manual.of(node.name)),
            }
        )
    return rows


def unseen_rows(pipeline: Pipeline) -> list[dict[str, object]]:
    """What is set by hand for nodes that are not there now."""
    known = {node.name for node in pipeline.nodes}
    return [
        {"name": name, **json_of(by_hand)}
        for name, by_hand in sorted(pipeline.manual.nodes.items())
        if name not in known
    ]


def push_status(ads: AdsService) -> dict[str, object]:
    """Table intervals over the connected Envoys, and what each of them holds."""
    intervals = ads.push_interval_ms()
    return {
        "interval_ms": None
        if intervals is None
        else {"p50": intervals.p50_ms, "p99": intervals.p99_ms},
        "tables": 0 if intervals is None else intervals.count,
        "clients": [
            {
                "node_id": client.node_id,
                "peer": client.peer,
                "connected_s": client.connected_s,
                "types": {
                    url.rpartition(".")[2]: {
                        "acked": kept.acked_version,
                        "nacks": kept.nacks,
                        "error": kept.error,
                    }
                    for url, kept in client.types.items()
                },
            }
            for client in ads.clients()
        ],
    }


def fleet_gauges(pipeline: Pipeline, observer: FleetObserver, ads: AdsService) -> FleetGauges:
    """What a scrape of the metrics reads."""
    decision, observed = pipeline.decision, pipeline.observed
    nodes = {}
    if decision is not None and observed is not None:
        for index, node in enumerate(pipeline.nodes):
            nodes[node.name] = {
                "weight": float(decision.weight[index]),
                "entropy": float(decision.entropy[index]),
                "in_flight": int(observed.in_flight[index]),
                "share_factor": float(decision.state.factor[index]),
            }
    return FleetGauges(
        nodes=nodes,
        states=pipeline.states(),
        decisions=vars(observer.decisions),
        transitions=pipeline.transitions,
        envoys=len(observer.envoys()),
        subscribers=len(ads.clients()),
    )


def _known(signal: Signal) -> float | None:
    return signal.value if signal.known else None


def _cell(column: Column, index: int) -> float | None:
    return float(column.value[index]) if column.known[index] else None
