"""The whole installation in virtual time: gateways of two VMs, the real control plane with what it
observes, and engines. Everything has its age: reports, samples and tables each come every 200 ms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from isocost.bench.trace import TraceRequest
from isocost.config import Policy
from isocost.fake.engine import Engine
from isocost.model import Node, NodeSample, measured
from isocost.observe.batch import Batch, NodeObservation, PrefillSums
from isocost.pipeline import Latest
from isocost.v1.table_pb2 import Table
from tests.simulation.fleet import Request, replay
from tests.simulation.pick import Picker, Query
from tests.simulation.timers import Timers
from tests.simulation.work import NodeWork, Work, copied
from tests.unit.control_plane.test_pipeline import READY_S, Bench
from tests.unit.fleet_builder import GB, KV_BYTES_PER_TOKEN, sample

PERIOD_S = 0.2
#: From a tick to a table's use: the way, and at most one look of the VM for a new one.
WAY_S, LOOK_S = 0.01, 0.02
BLOCK_TOKENS = 16
VMS = 2
#: Requests come from here on: the first roster is there.
BEGIN_S = READY_S + 2 * PERIOD_S

#: What is told of a node instead of what its engine says, at a time; None: nothing is told.
Telling = Callable[[int, NodeSample, float], NodeSample | None]


@dataclass(frozen=True, slots=True)
class Flight:
    """An open request: who sent it, and what it counts for."""

    vm: int
    sent_s: float
    work: Work
    #: The node's with this one.
    all_pending_tokens: float


class Vm:
    """The filter in one worker, and what it has to report."""

    def __init__(self, number: int, picker: Picker, nodes: int) -> None:
        self.number = number
        self.picker = picker
        self.reported = copied(self.picker.own)
        self._sequence = 0
        #: Sums of the times at which the open requests were sent.
        self.sent_s = np.zeros(nodes)
        #: Since the last report: started, ended, first tokens (with tokens and seconds), answers
        #: (with milliseconds per token).
        self.started, self.ended = np.zeros(nodes, int), np.zeros(nodes, int)
        self.prefill, self.tpot = np.zeros((nodes, 3)), np.zeros((nodes, 2))

    def report(self, ids: Sequence[int], now_s: float) -> Batch:
        self.reported = copied(self.picker.own)
        self._sequence += 1
        rows = tuple(
            NodeObservation(
                node_id,
                in_flight=int(work.open),
                open_age_s_sum=max(work.open * now_s - float(self.sent_s[index]), 0.0),
                started=int(self.started[index]),
                succeeded=int(self.ended[index]),
                first_byte_count=int(self.prefill[index, 0]),
                first_byte_ms_sum=1e3 * float(self.prefill[index, 2]),
                tpot_count=int(self.tpot[index, 0]),
                tpot_ms_sum=float(self.tpot[index, 1]),
                pending_tokens=max(round(work.pending_tokens), 0),
                kv_tokens=max(round(work.kv_tokens), 0),
                prefill=PrefillSums(*self.prefill[index].tolist()),
            )
            for index, (node_id, work) in enumerate(zip(ids, self.reported, strict=True))
        )
        for news in (self.started, self.ended, self.prefill, self.tpot):
            news[:] = 0
        return Batch("edge", self.number, self._sequence, rows)


class ClosedLoop:
    """Gateways of one policy. ``telling`` changes what agents say; ``history`` has what every tick
    published, from ``BEGIN_S`` on.
    """

    def __init__(
        self,
        policy: Policy,
        nodes: Sequence[Node],
        engines: Sequence[Engine],
        output_tokens: float,
        seed: int,
        telling: Telling = lambda _, told, __: told,
        *,
        dispersion: bool = True,
    ) -> None:
        self._nodes, self._engines = nodes, engines
        self._output_tokens = output_tokens
        self._telling = telling
        self._rng = random.Random(seed)
        self._bench = Bench()
        self._vms = [
            Vm(number, Picker(policy, len(nodes), seed + number, dispersion), len(nodes))
            for number in range(1, VMS + 1)
        ]
        self._flights: dict[int, Flight] = {}
        self._timers = Timers()
        self.history: list[Latest] = []
        self._timers.every(PERIOD_S, 0.0, self._sample)
        self._timers.every(PERIOD_S, 0.1, self._tick)
        for vm in self._vms:
            self._timers.every(PERIOD_S, self._rng.random() * PERIOD_S, partial(self._report, vm))

    def run(self, trace: Sequence[TraceRequest]) -> list[Request]:
        """What became of each request; times count from ``BEGIN_S`` on."""
        later = [replace(item, arrival_s=item.arrival_s + BEGIN_S) for item in trace]
        return replay(later, self._engines, self)

    def choose(self, now_s: float, request: Request) -> int:
        self._timers.run_until(now_s)
        vm = self._rng.choice(self._vms)
        prompt = float(request.prompt.tokens)
        tokens = prompt + self._output_tokens
        node = vm.picker.pick(Query(prompt, tokens, tokens * KV_BYTES_PER_TOKEN / GB))
        pending = vm.picker.pending_tokens(node) + prompt
        self._flights[request.number] = Flight(
            vm.number - 1, now_s, Work(prompt, 1.0, tokens), pending
        )
        vm.picker.own[node].opened(prompt, tokens)
        vm.sent_s[node] += now_s
        vm.started[node] += 1
        return node

    def first_token(self, now_s: float, request: Request) -> None:
        self._timers.run_until(now_s)
        flight = self._flights[request.number]
        vm = self._vms[flight.vm]
        vm.picker.own[request.node].pending_tokens -= flight.work.pending_tokens
        vm.prefill[request.node] += (1.0, flight.all_pending_tokens, now_s - flight.sent_s)

    def finished(self, now_s: float, request: Request) -> None:
        self._timers.run_until(now_s)
        flight = self._flights.pop(request.number)
        vm, node = self._vms[flight.vm], request.node
        if request.output_tokens > 1 and request.first_token_s is not None:
            tpot_s = (now_s - request.first_token_s) / (request.output_tokens - 1)
            vm.tpot[node] += (1.0, 1e3 * tpot_s)
        vm.picker.own[node].open -= 1
        vm.picker.own[node].kv_tokens -= flight.work.kv_tokens
        vm.sent_s[node] -= flight.sent_s
        vm.ended[node] += 1

    def _report(self, vm: Vm, now_s: float) -> None:
        batch = vm.report([item.id for item in self._bench.pipeline.nodes or self._nodes], now_s)
        self._bench.observer.apply(batch, now_s)

    def _sample(self, now_s: float) -> None:
        told = [
            self._telling(index, self._sample_of(index), now_s) for index in range(len(self._nodes))
        ]
        self._bench.report(now_s, *(item for item in told if item is not None))

    def _sample_of(self, index: int) -> NodeSample:
        engine = self._engines[index]
        pool_gb = engine.kv_blocks * BLOCK_TOKENS * KV_BYTES_PER_TOKEN / GB
        found = sample(
            self._nodes[index],
            kv_pool_gb=pool_gb,
            kv_usage=engine.kv_usage,
            running=engine.running,
            waiting=engine.waiting,
        )
        tokens = replace(
            found.engine,
            prompt_tokens_total=measured(engine.prompt_tokens_total),
            generation_tokens_total=measured(engine.generation_tokens_total),
        )
        return replace(found, engine=tokens)

    def _tick(self, now_s: float) -> None:
        self._bench.tick(now_s)
        latest = self._bench.pipeline.latest
        if latest is None:
            return
        self.history.append(latest)
        table = self._bench.table()
        for vm in self._vms:
            seen: NodeWork = copied(vm.reported)
            take = partial(_take, vm, table, seen)
            self._timers.at(now_s + WAY_S + self._rng.random() * LOOK_S, take)


def _take(vm: Vm, table: Table, seen: NodeWork, _now_s: float) -> None:
    vm.picker.take(table, seen)


def shares(requests: Sequence[Request], nodes: int, window_s: float) -> np.ndarray:
    """What part of the requests of each window each node got, [windows, nodes]; only whole
    windows.
    """
    last_s = requests[-1].arrival_s - BEGIN_S
    counts = np.zeros((int(last_s / window_s + 1e-6), nodes))
    for request in requests:
        window = int((request.arrival_s - BEGIN_S) / window_s)
        if window < len(counts):
            counts[window, request.node] += 1
    return counts / counts.sum(axis=1, keepdims=True)
