"""Why a node has its numbers: every term with what is known of it, and what it contributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from isocost.config import ControlPlaneConfig
from isocost.model import SignalState
from isocost.pipeline import Latest
from isocost.score.columns import Column, Floats
from isocost.weight.by_model import ByModel
from isocost.weight.decide import LATENCY_DECAY_S, Decision


@dataclass(frozen=True, slots=True)
class Term:
    """``value`` is what was measured or learned, None = unknown; ``used`` is what stands in the
    formula instead: stale values are decayed, unknown ones are the fleet's median.

    ``contribution``: a factor relative to the best node's (weight, share), a summand (entropy) or
    seconds (time).
    """

    name: str
    value: float | None
    state: str
    age_s: float | None
    used: float
    contribution: float

    def json(self) -> dict[str, object]:
        return {
            "term": self.name,
            "value": self.value,
            "state": self.state,
            "age_s": self.age_s,
            "used": self.used,
            "contribution": _finite(self.contribution),
        }


def why(latest: Latest, index: int, config: ControlPlaneConfig) -> dict[str, object]:
    """The numbers of the node ``index`` as plain data. The contributions multiply to the weight and
    the share, and add up to the entropy and the time, where nothing is set by hand.

    ``share`` and ``predicted_s`` are of the node's first model. Where it has several,
    ``by_model`` has what the table has of each: its weight, share and time. The entropy is the
    node's.
    """
    state = latest.decision.state
    standing = state.standings[index]
    rows = latest.by_model.rows
    first, *others = np.flatnonzero(rows.node_of == index).tolist()
    several = [first, *others] if others else []
    return {
        "name": latest.nodes[index].name,
        "policy": config.filter.policy,
        "state": standing.state.name.lower(),
        "reason": standing.reason.value,
        "guards": latest.scored.names(index),
        "late_ms": _known_ms(latest.scored.jitter.rise_s[index]),
        "late_limit_ms": _known_ms(latest.scored.jitter.limit_s[index]),
        "weight": _weight(latest.decision, index, config),
        "entropy": _entropy(latest, index),
        "share": _share(latest.by_model, first),
        "predicted_s": _time(latest, first),
        "by_model": [
            {
                "model": rows.nodes[row].models[0].name,
                "weight": _weight(latest.by_model.decision, row, config),
                "share": _share(latest.by_model, row),
                "predicted_s": _time(latest, row),
            }
            for row in several
        ],
    }


def _part(value: float, terms: Sequence[Term]) -> dict[str, object]:
    return {"value": _finite(value), "terms": [term.json() for term in terms]}


def _weight(decision: Decision, index: int, config: ControlPlaneConfig) -> dict[str, object]:
    best = int(np.argmax(decision.weight))
    factor_per_ms = config.weight.latency_factor_per_ms
    free, pcie = decision.free_share, decision.pcie_utilisation
    latency = decision.latency_ms
    terms = [
        _factor("free_vram_share", free, free.filled(default=1.0), index, best, _same),
        _factor("pcie_utilisation", pcie, pcie.filled(default=0.0), index, best, _left),
        _factor(
            "latency_ms",
            latency,
            latency.filled(default=0.0, decay_s=LATENCY_DECAY_S),
            index,
            best,
            lambda used: math.exp(-factor_per_ms * min(used, 700.0 / factor_per_ms)),
        ),
        _known_factor("health", decision.health, index, best),
        _known_factor("node_state", decision.state.factor, index, best),
    ]
    return _part(float(decision.weight[index]), terms)


def _entropy(latest: Latest, index: int) -> dict[str, object]:
    decision = latest.decision
    telemetry, terms = decision.telemetry, decision.entropy_terms
    ages_s, age = float(latest.scored.open_ages_s[index]), float(terms.age[index])
    capacity = float(terms.capacity[index])
    entropy = float(decision.entropy[index])

    def summand(name: str, column: Column, term: Floats) -> Term:
        used = float(term[index])
        value, state, age_s = _read(column, index)
        return Term(name, value, state, age_s, used, used / capacity)

    summands = [
        summand("kv_cache", telemetry.kv_usage, terms.kv),
        Term("open_ages", ages_s, "measured", 0.0, age, age / capacity),
        summand("network", telemetry.net_bytes_per_s, terms.net),
        summand("queue", telemetry.waiting, terms.queue),
    ]
    raised = entropy - float(terms.total[index])
    factor = float(decision.state.factor[index] * decision.health[index])
    summands.append(Term("node_state", factor, "measured", 0.0, factor, raised))
    return _part(entropy, summands)


def _share(by_model: ByModel, row: int) -> dict[str, object]:
    best = int(np.argmax(by_model.capacity))
    terms = [
        _known_factor("speed", by_model.speed, row, best),
        _known_factor("health", by_model.decision.health, row, best),
        _known_factor("node_state", by_model.decision.state.factor, row, best),
    ]
    return _part(float(by_model.capacity[row]), terms)


def _time(latest: Latest, row: int) -> dict[str, object]:
    costs, observed = latest.by_model.costs, latest.by_model.observed
    known = bool(observed.in_flight_known[row])
    token_s, request_s = float(costs.token_s[row]), float(costs.request_s[row])
    speed, speed_state, _ = _read(costs.token, row)

    def gateways(name: str, count: float, seconds: float) -> Term:
        state = "measured" if known else "absent"
        return Term(name, count if known else None, state, None, count, count * seconds)

    terms = [
        Term("own_prompt", speed, speed_state, None, token_s, latest.prompt_tokens * token_s),
        gateways("pending_tokens", float(observed.pending_tokens[row]), token_s),
        gateways("open_requests", float(observed.in_flight[row]), request_s),
        Term("unseen_queue", None, "derived", None, 1.0, float(costs.extra_s[row])),
    ]
    return _part(sum(term.contribution for term in terms), terms)


def _factor(
    name: str, column: Column, used: Floats, index: int, best: int, of: Callable[[float], float]
) -> Term:
    value, state, age_s = _read(column, index)
    own, best_own = of(float(used[index])), of(float(used[best]))
    return Term(name, value, state, age_s, float(used[index]), _ratio(own, best_own))


def _known_factor(name: str, values: Floats, index: int, best: int) -> Term:
    own = float(values[index])
    return Term(name, own, "measured", 0.0, own, _ratio(own, float(values[best])))


def _read(column: Column, index: int) -> tuple[float | None, str, float | None]:
    state = SignalState(int(column.state[index]))
    if not column.known[index]:
        return None, state.name.lower(), None
    return float(column.value[index]), state.name.lower(), float(column.age_s[index])


def _ratio(own: float, best: float) -> float:
    return own / best if best > 0.0 else 0.0


def _same(used: float) -> float:
    return min(max(used, 0.0), 1.0)


def _left(used: float) -> float:
    return min(max(1.0 - used, 0.0), 1.0)


def _known_ms(seconds: float) -> float | None:
    """None where it is not known (NaN)."""
    return float(seconds) * 1e3 if math.isfinite(seconds) else None


def _finite(value: float) -> float | str:
    """JSON has no infinity."""
    return value if math.isfinite(value) else "inf"
