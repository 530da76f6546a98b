"""The control plane's state as plain data: for the pages, the commands and the metrics."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from isocost.config import Policy
from isocost.discovery.registry import Registry
from isocost.discovery_status import discovery_gauges, unresolved_rows
from isocost.manual import Manual, json_of
from isocost.metrics import FleetGauges, NodeStanding
from isocost.model import Signal
from isocost.node_signals import node_signals
from isocost.observe.fleet import FleetObserver
from isocost.pipeline import Latest, Pipeline
from isocost.push.ads import AdsService
from isocost.push.stream import ClientStatus
from isocost.reload import Reload
from isocost.score.columns import Column
from isocost.score.hardware import unknown_rows
from isocost.score.health_table import ROWS
from isocost.weight.by_model import ByModel
from isocost.weight.hardware_watch import FleetHardware, Lasting
from isocost.weight.inputs import missing_inputs, signal_states

#: Of clients, Envoys and refused fields: enough to see what is wrong, and few enough that the page
#: stays below 300 KB whoever connects. (All nodes are on a page of their own.)
LISTED = 100
#: Characters of a text that came from outside.
_ERROR_LIMIT = 200

#: Time that rows are made at once, so that the page of a large fleet holds no tick up. (A thread
#: would keep the interpreter for 5 ms at a time.)
_AT_ONCE_S = 1e-3


class NodesPage:
    """All nodes as JSON text: made once per table, and in parts between which the loop can tick.

    ``signals``: with every signal of every node.
    """

    def __init__(
        self, pipeline: Pipeline, registry: Registry, observer: FleetObserver, signals: bool
    ) -> None:
        self._pipeline = pipeline
        self._registry = registry
        self._observer = observer
        self._signals = signals
        self._making = asyncio.Lock()
        self._of: tuple[Latest, Manual] | None = None
        self._text = ""

    async def text(self) -> str:
        """The page of the table and the settings of now."""
        async with self._making:
            latest, manual = self._pipeline.latest, self._pipeline.manual
            if self._of is None or self._of[0] is not latest or self._of[1] is not manual:
                rows: list[str] = []
                pause_s = time.perf_counter() + _AT_ONCE_S
                for row in self._rows(latest, manual):
                    rows.append(json.dumps(row, allow_nan=False))
                    if time.perf_counter() > pause_s:
                        await asyncio.sleep(0)
                        pause_s = time.perf_counter() + _AT_ONCE_S
                unseen = json.dumps(unseen_rows(latest, manual), allow_nan=False)
                unresolved = json.dumps(unresolved_rows(self._registry.state(time.monotonic())))
                self._text = (
                    f'{{"nodes": [{", ".join(rows)}], "unseen": {unseen}, '
                    f'"unresolved": {unresolved}}}'
                )
                # Before the first table, what is unresolved is news of its own.
                self._of = None if latest is None else (latest, manual)
            return self._text

    def _rows(self, latest: Latest | None, manual: Manual) -> Iterator[dict[str, object]]:
        return node_rows(latest, manual, self._observer, self._signals) if latest else iter(())


def node_rows(
    latest: Latest, manual: Manual, observer: FleetObserver, signals: bool = False
) -> Iterator[dict[str, object]]:
    """One object per node. Unknown numbers are null; an infinite entropy is the text "inf".
    ``signals``: with every signal of its sample.
    """
    decision, observed = latest.decision, latest.observed
    state = decision.state
    # A gateway that is silent may have requests open: that is not zero.
    known = observed.in_flight_known
    for index, node in enumerate(latest.nodes):
        sample = latest.samples[index]
        age_s = latest.at_s - float(state.since_s[index])
        sample_age_s = float(latest.ages_s[index])
        entropy = float(decision.entropy[index])
        row: dict[str, object] = {
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
            "since_unix_s": latest.at_unix_s - age_s,
            "share_factor": float(state.factor[index]),
            "failure_ratio": float(state.evidence.failure_ratio[index]),
            "weight": float(decision.weight[index]),
            "entropy": entropy if math.isfinite(entropy) else "inf",
            "capacity": float(latest.capacity[index]),
            # A gateway that is silent may have requests open: that is not zero.
            "in_flight": int(observed.in_flight[index]) if known[index] else None,
            "pending_tokens": int(observed.pending_tokens[index]) if known[index] else None,
            "kv_tokens": int(observed.kv_tokens[index]) if known[index] else None,
            "kv_capacity_tokens": _cell(decision.telemetry.kv_pool_tokens, index),
            # Learned; null = a prior stands in.
            "prefill_tokens_per_s": _inverse(_cell(latest.costs.token, index)),
            "extra_ms": float(latest.costs.extra_s[index]) * 1e3,
            "running": _known(sample.engine.running) if sample else None,
            "waiting": _known(sample.engine.waiting) if sample else None,
            "kv_usage": _known(sample.engine.kv_usage) if sample else None,
            "free_vram_share": _cell(decision.free_share, index),
            "pcie_utilisation": _cell(decision.pcie_utilisation, index),
            "latency_ms": _cell(decision.latency_ms, index),
            "health": float(decision.health[index]),
            "health_findings": [
                finding_row(item, latest) for item in state.hardware.findings.get(node.name, ())
            ],
            "health_unknown": unknown_rows(sample, sample_age_s) if sample else None,
            "guards": latest.scored.names(index),
            "sample_age_s": sample_age_s if sample else None,
            "clock_offset_ms": _milliseconds(float(latest.clock_offsets_s[index])),
            "outcomes": observer.outcomes(node.id),
            "by_model": rows_by_model(latest.by_model, index),
            **json_of(manual.of(node.name)),
        }
        if signals:
            row["signals"] = node_signals(sample, sample_age_s) if sample else None
        yield row


def rows_by_model(numbers: ByModel, index: int) -> list[dict[str, object]]:
    """What the table has of each model of a node with several, in their order."""
    first, end = np.searchsorted(numbers.rows.node_of, (index, index + 1)).tolist()
    if end - first < 2:
        return []
    observed, costs = numbers.observed, numbers.costs
    known = observed.in_flight_known
    return [
        {
            "model": numbers.rows.nodes[place].models[0].name,
            "weight": float(numbers.decision.weight[place]),
            "capacity": float(numbers.capacity[place]),
            "in_flight": int(observed.in_flight[place]) if known[place] else None,
            "pending_tokens": int(observed.pending_tokens[place]) if known[place] else None,
            "kv_tokens": int(observed.kv_tokens[place]) if known[place] else None,
            "kv_capacity_tokens": float(costs.kv_capacity_tokens[place]) or None,
            "prefill_tokens_per_s": _inverse(_cell(costs.token, place)),
        }
        for place in range(first, end)
    ]


def finding_row(item: Lasting, latest: Latest) -> dict[str, object]:
    """``gpu`` is null for what is found of the whole node."""
    age_s = latest.at_s - item.since_s
    return {
        "row": item.finding.row.name,
        "action": item.finding.row.action.name.lower(),
        "gpu": item.finding.gpu,
        "value": item.finding.value,
        "age_s": age_s,
        "since_unix_s": latest.at_unix_s - age_s,
    }


def unseen_rows(latest: Latest | None, manual: Manual) -> list[dict[str, object]]:
    """What is set by hand for nodes that are not there now."""
    known = {node.name for node in latest.nodes} if latest else set()
    return [
        {"name": name, **json_of(by_hand)}
        for name, by_hand in sorted(manual.nodes.items())
        if name not in known
    ]


def envoy_status(observer: FleetObserver) -> dict[str, dict[str, object]]:
    """By Envoy that reports, the first of them by name: how many of the workers that have served a
    request still can, null = its filter does not say; and its part of all requests, null = there
    were none lately.
    """
    shares = observer.envoy_shares
    return {
        envoy[:_ERROR_LIMIT]: {
            "workers": None if count is None else {"live": count.live, "expected": count.expected},
            "share": shares.get(envoy) or None,
        }
        for envoy, count in islice(observer.envoys().items(), LISTED)
    }


def push_status(ads: AdsService) -> dict[str, object]:
    """Table intervals over the connected Envoys, and what each of them holds; of many, those that
    refuse something come first and the last ones are left out.
    """
    intervals = ads.push_interval_ms()
    clients = sorted(
        ads.clients(), key=lambda client: (not _refuses(client), client.node_id, client.peer)
    )
    return {
        "interval_ms": None
        if intervals is None
        else {"p50": intervals.p50_ms, "p99": intervals.p99_ms},
        "tables": 0 if intervals is None else intervals.count,
        "connected": len(clients),
        "refusing": sum(map(_refuses, clients)),
        "nacks": short_names(ads.nacks),
        "clients": [
            {
                "node_id": client.node_id,
                "peer": client.peer,
                "variant": "delta" if client.delta else "state of the world",
                "connected_s": client.connected_s,
                "types": {
                    _short(url): {
                        "acked": kept.acked_version,
                        "refused": kept.refused_version,
                        "nacks": kept.nacks,
                        # The reason comes last.
                        "error": kept.error and kept.error[-_ERROR_LIMIT:],
                    }
                    for url, kept in client.types.items()
                },
            }
            for client in clients[:LISTED]
        ],
    }


def _refuses(client: ClientStatus) -> bool:
    return any(kept.error is not None for kept in client.types.values())


def short_names(by_type: Mapping[str, int]) -> dict[str, int]:
    """Type URLs by their last word."""
    return {_short(url): count for url, count in by_type.items()}


def _short(type_url: str) -> str:
    return type_url.rpartition(".")[2]


def _refusing(ads: AdsService) -> dict[str, int]:
    """By type, every type named: clients that refuse what they were sent last."""
    found = Counter(
        url
        for client in ads.clients()
        for url, kept in client.types.items()
        if kept.error is not None
    )
    return short_names({url: found[url] for url in ads.nacks})


def config_status(reload: Reload[Any]) -> dict[str, object]:
    """Which file is in force since when, and what became of the last other one. Values are left
    out: they may be secret.
    """
    loaded, refused = reload.loaded, reload.refused
    return {
        "file": None if loaded.source.path is None else str(loaded.source.path),
        "sha256": loaded.sha256,
        "loaded_at_unix_s": loaded.at_unix_s,
        "reloads": dict(reload.results),
        "refused": None
        if refused is None
        else {
            "at_unix_s": refused.at_unix_s,
            "fields": [
                {"field": item.field[:_ERROR_LIMIT], "allowed": item.allowed[:_ERROR_LIMIT]}
                for item in refused.error.fields[:LISTED]
            ],
        },
    }


def fleet_gauges(
    pipeline: Pipeline,
    registry: Registry,
    observer: FleetObserver,
    ads: AdsService,
    policy: Policy,
) -> FleetGauges:
    """What a scrape of the metrics reads: a copy, which nothing changes while it is written."""
    latest = pipeline.latest
    envoys = observer.envoys()
    columns = {}
    standings: Sequence[NodeStanding] = ()
    intervals = ads.push_interval_ms()
    findings = _findings(latest.decision.state.hardware if latest else None)
    signals: Mapping[str, Mapping[str, int]] = {}
    if latest is not None:
        signals = signal_states(latest.decision, latest.costs)
        observed, costs = latest.observed, latest.costs
        columns = {
            "weight": latest.decision.weight.tolist(),
            "entropy": latest.decision.entropy.tolist(),
            "capacity": latest.capacity.tolist(),
            "in_flight": np.where(observed.in_flight_known, observed.in_flight, np.nan).tolist(),
            "pending_tokens": np.where(
                observed.in_flight_known, observed.pending_tokens, np.nan
            ).tolist(),
            "kv_tokens": np.where(observed.in_flight_known, observed.kv_tokens, np.nan).tolist(),
            "token_seconds": np.where(costs.token.known, costs.token.value, np.nan).tolist(),
            "share_factor": latest.decision.state.factor.tolist(),
            "health": latest.decision.health.tolist(),
            "first_byte_seconds": (observed.first_byte.mean_ms / 1e3).tolist(),
            "output_token_seconds": (observed.tpot.mean_ms / 1e3).tolist(),
            "sample_age_seconds": np.where(latest.samples.there, latest.ages_s, np.nan).tolist(),
            "requests": observed.total.started.tolist(),
            "good_answers": observed.total.good.tolist(),
            "failures": observed.total.failed.tolist(),
            "rate_limited": observed.total.rate_limited.tolist(),
        }
        standings = [
            NodeStanding(node.rack, standing.state.name.lower(), standing.reason.value)
            for node, standing in zip(latest.nodes, latest.decision.state.standings, strict=True)
        ]
    return FleetGauges(
        nodes=tuple(node.name for node in pipeline.nodes),
        columns=columns,
        standings=standings,
        states=pipeline.states(),
        signals=signals,
        findings=findings,
        guards=_guards(latest),
        missing_inputs=missing_inputs(signals, policy),
        policy=policy,
        decisions=dict(vars(observer.decisions)),
        transitions=dict(pipeline.transitions),
        envoys=len(envoys),
        workers={
            envoy: (count.live, count.missing)
            for envoy, count in envoys.items()
            if count is not None
        },
        stale_choices=observer.stale_choices,
        answers=dict(vars(observer.answers)),
        output_tokens=observer.output_tokens,
        nacks=short_names(ads.nacks),
        refusing=_refusing(ads),
        invalid_streams=ads.invalid_streams,
        subscribers=len(ads.clients()),
        table_unix_s=None if latest is None else latest.at_unix_s,
        push_interval_s={}
        if intervals is None
        else {"0.5": intervals.p50_ms / 1e3, "0.99": intervals.p99_ms / 1e3},
        discovery=discovery_gauges(registry.state(time.monotonic())),
    )


def _findings(hardware: FleetHardware | None) -> dict[str, int]:
    """By row of the health table, every row named."""
    found = Counter(
        item.finding.row.name
        for items in (hardware.findings.values() if hardware else ())
        for item in items
    )
    return {row.name: found[row.name] for row in ROWS}


def _guards(latest: Latest | None) -> dict[str, int]:
    """By guard: nodes that it does not believe."""
    found = latest.scored.found if latest else {}
    return {name: int(flags.sum()) for name, flags in found.items()}


def signals_status(latest: Latest | None, policy: Policy) -> dict[str, object]:
    """Of how many nodes each signal is known, and what the policy has to do without."""
    states = signal_states(latest.decision, latest.costs) if latest else {}
    return {"nodes": states, "missing": list(missing_inputs(states, policy))}


def _known(signal: Signal) -> float | None:
    return signal.value if signal.known else None


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1.0 / value


def _milliseconds(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds * 1e3


def _cell(column: Column, index: int) -> float | None:
    return float(column.value[index]) if column.known[index] else None
