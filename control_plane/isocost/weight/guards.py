"""Numbers that cannot be true do not make a node's share: the guards before the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.config import EntropySettings, StateSettings
from isocost.model import Node
from isocost.observe.fleet import Observed
from isocost.score.columns import Floats
from isocost.score.constants import RosterConstants
from isocost.score.entropy import EntropyTerms, entropy_terms
from isocost.score.open_ages import open_ages
from isocost.score.telemetry import FleetTelemetry
from isocost.weight.anomaly import AnomalyWatch, explained
from isocost.weight.clocks import ClockWatch
from isocost.weight.evidence import Flags
from isocost.weight.gauges import GaugeWatch
from isocost.weight.guarded import Guarded
from isocost.weight.jitter import Jitter, JitterWatch
from isocost.weight.standing import Reason


@dataclass(frozen=True)
class Scored:
    """What is left to score the n nodes with, and, as ``signs``, what tells whether their engines
    get anywhere. ``found`` [n] is what each guard found, by its name:
    ``clock_skew``, ``frozen``, ``idle_stuck``, ``anomaly``, ``jitter``.
    """

    telemetry: FleetTelemetry
    signs: FleetTelemetry
    terms: EntropyTerms
    open_ages_s: Floats
    jitter: Jitter
    found: Mapping[str, Flags]
    guarded: Guarded

    def names(self, index: int) -> list[str]:
        """The guards that have found something of a node."""
        return [name for name, flags in self.found.items() if flags[index]]


class Guards:
    """Remembers what each guard has to from tick to tick. Times are monotonic seconds."""

    def __init__(self, states: StateSettings, entropy: EntropySettings) -> None:
        self._entropy = entropy
        self._nodes: tuple[Node, ...] = ()
        self._clocks = ClockWatch()
        self._gauges = GaugeWatch(states)
        self._anomaly = AnomalyWatch(states)
        self._jitter = JitterWatch(states)

    def configure(self, states: StateSettings, entropy: EntropySettings) -> None:
        """Other settings from the next tick on."""
        self._entropy = entropy
        self._gauges.settings = self._anomaly.settings = self._jitter.settings = states

    def tick(
        self,
        nodes: tuple[Node, ...],
        telemetry: FleetTelemetry,
        clock_offset_s: Floats,
        observed: Observed,
        constants: RosterConstants,
        pools: NDArray[np.intp],
        now_s: float,
    ) -> Scored:
        """``clock_offset_s`` [n] is each node's clock less this machine's, NaN = not known;
        ``pools`` [n]: nodes that should be alike have the same number.
        """
        if nodes != self._nodes:
            former = _former(self._nodes, nodes)
            self._clocks.rearrange(former)
            self._gauges.rearrange(former, now_s)
            self._anomaly.rearrange(former)
            self._jitter.rearrange(former)
            self._nodes = nodes
        gauges = self._gauges.update(telemetry, observed, now_s)
        signs, telemetry = gauges.signs(telemetry), gauges.applied(telemetry)
        believed, skewed = self._clocks.update(clock_offset_s)
        ages_s = open_ages(telemetry, believed, observed.in_flight, observed.open_age_s_sum)
        terms = entropy_terms(telemetry, ages_s, constants.capacity, self._entropy)
        known = explained(telemetry, terms, constants.kv_bytes_per_token, observed, self._entropy)
        anomalous = self._anomaly.update(terms.whole, known, now_s)
        jitter = self._jitter.update(observed.times, pools, now_s)
        doubts = dict.fromkeys(np.flatnonzero(anomalous).tolist(), Reason.ANOMALY)
        # Of both the one that takes more of the share by default.
        doubts |= dict.fromkeys(np.flatnonzero(jitter.late).tolist(), Reason.JITTER)
        stuck = tuple(np.flatnonzero(gauges.newly).tolist())
        found = {
            "clock_skew": skewed,
            "frozen": gauges.frozen,
            "idle_stuck": gauges.idle_stuck,
            "anomaly": anomalous,
            "jitter": jitter.late,
        }
        return Scored(telemetry, signs, terms, ages_s, jitter, found, Guarded(doubts, stuck))


def _former(before: Sequence[Node], nodes: Sequence[Node]) -> NDArray[np.intp]:
    """Each node's place in the roster before, -1 = it was not there, or as another instance."""
    place = {node.instance_id: index for index, node in enumerate(before)}
    return np.array([place.get(node.instance_id, -1) for node in nodes], dtype=np.intp)
