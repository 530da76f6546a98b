"""The product's learner beside the simulated gateways: speeds from what they saw, as in a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isocost.observe.batch import NodeObservation, PrefillSums, node_table
from isocost.observe.speeds import PRIOR_TOKEN_S, SpeedLearner
from isocost.weight.capacity import relative_speed
from isocost.weight.requests import RequestMean
from tests.simulation.work import NodeWork
from tests.unit.fleet_builder import observed_nothing


@dataclass(frozen=True, slots=True)
class Node:
    """What the control plane knows of one."""

    token_s: float
    kv_capacity_tokens: int
    capacity: float


class Seen:
    """What one VM saw since its last report: sums per node."""

    def __init__(self, nodes: int) -> None:
        self._prefill = np.zeros((nodes, len(PrefillSums._fields)))
        #: Answers, and the sums of their times per output token in seconds.
        self._decode = np.zeros((nodes, 2))

    def first_token(self, node: int, pending_tokens: float, first_token_s: float) -> None:
        self._prefill[node] += (1.0, pending_tokens, first_token_s)

    def finished(self, node: int, tpot_s: float) -> None:
        self._decode[node] += (1.0, tpot_s)

    def take(self) -> list[NodeObservation]:
        taken = [
            NodeObservation(
                node,
                prefill=PrefillSums(*prefill),
                tpot_count=int(answers),
                tpot_ms_sum=tpot_s * 1e3,
            )
            for node, (prefill, (answers, tpot_s)) in enumerate(
                zip(self._prefill.tolist(), self._decode.tolist(), strict=True)
            )
        ]
        self._prefill[:] = self._decode[:] = 0.0
        return taken


class Learner:
    """Starts from nothing known but which nodes should be alike."""

    def __init__(
        self, pools: Sequence[int], kv_capacity_tokens: Sequence[int], mean_output_tokens: float
    ) -> None:
        self._pools = np.array(pools, dtype=np.intp)
        self._rows = np.arange(len(pools), dtype=np.intp)
        self._kv_capacity_tokens = kv_capacity_tokens
        self._output_tokens = mean_output_tokens
        self._speeds = SpeedLearner()
        self._speeds.grow(len(pools))
        self._requests = RequestMean()
        #: What was believed at each time.
        self.history: list[tuple[float, list[Node]]] = []

    @property
    def unlearned(self) -> list[Node]:
        """What is known before anything was seen."""
        return [Node(PRIOR_TOKEN_S, tokens, 1.0) for tokens in self._kv_capacity_tokens]

    def add(self, seen: Seen) -> None:
        self._speeds.add(self._rows, node_table(seen.take()).news)

    def nodes(self, now_s: float, table: NodeWork) -> list[Node]:
        """What is believed at ``now_s``; once per tick."""
        speeds = self._speeds.update(self._rows, self._pools, now_s)
        observed = replace(
            observed_nothing(len(self._rows)),
            in_flight=np.array([round(work.open) for work in table]),
            kv_tokens=np.array([round(work.kv_tokens) for work in table]),
        )
        request = self._requests.update(observed, self._output_tokens, now_s)
        capacity = relative_speed(speeds, request, np.ones(len(self._rows)))
        nodes = [
            Node(*values)
            for values in zip(
                speeds.token_s.tolist(), self._kv_capacity_tokens, capacity.tolist(), strict=True
            )
        ]
        self.history.append((now_s, nodes))
        return nodes
