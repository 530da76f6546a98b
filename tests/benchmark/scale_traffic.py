"""What agents and Envoys of a large fleet send, made before anything is measured.

A message is made of a body that was encoded before and of the few fields that are new in each: the
bytes of a protobuf message and of its further fields, one behind the other, are one message.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isocost.model import NodeSample, measured
from isocost.observe.batch import NodeObservation, PrefillSums
from isocost.telemetry.report import StreamMemory, encode_report
from isocost.v1 import observation_pb2, telemetry_pb2
from tests.benchmark.tick_fleet import node_sample
from tests.unit.observation_rows import encode_nodes

NODES_PER_AGENT, VMS = 8, 2
INTERVAL_S = 0.2
#: So many different bodies follow each other.
VARIANTS = 5
#: The bodies of this number and more are of warmer GPUs: health is read twice a second, so it
#: changes in two of five reports at most.
_WARMER = 2
#: Requests that a VM has open on each node, beside those that are news.
_OPEN = 2
_PROMPT_TOKENS, _OUTPUT_TOKENS, _TOKEN_MS, _FIRST_S = 1_200, 210, 20.0, 0.25


class AgentTraffic:
    """The reports of the agent of eight nodes."""

    def __init__(self, number: int) -> None:
        self.name = f"agent-{number}"
        first = number * NODES_PER_AGENT
        samples = [node_sample(first + place, 1) for place in range(NODES_PER_AGENT)]
        rng = np.random.default_rng(number)
        reports = [
            encode_report("", 0, 0.0, 0.0, [_varied(sample, rng, variant) for sample in samples])
            for variant in range(VARIANTS)
        ]
        # The first one is of a stream's beginning.
        self._first = reports[0].SerializeToString()
        memory = StreamMemory()
        for report in reports:
            memory.shorten(report)
        again = encode_report("", 0, 0.0, 0.0, [_varied(sample, rng, 0) for sample in samples])
        memory.shorten(again)
        self._bodies = [report.SerializeToString() for report in (again, *reports[1:])]

    def report(self, sequence: int, wall_s: float, monotonic_s: float) -> bytes:
        """The report with this number, counted from 0 in its stream."""
        head = telemetry_pb2.TelemetryReport(
            agent=self.name,
            sequence=1 + sequence,
            wall_unix_ms=round(wall_s * 1e3),
            monotonic_ms=round(monotonic_s * 1e3),
        )
        body = self._bodies[sequence % VARIANTS] if sequence else self._first
        return head.SerializeToString() + body


def _varied(sample: NodeSample, rng: np.random.Generator, variant: int) -> NodeSample:
    draw = rng.random(6)
    warmer = int(variant >= _WARMER)
    return replace(
        sample,
        engine=replace(
            sample.engine,
            running=measured(float(rng.integers(50))),
            waiting=measured(float(rng.integers(5))),
            kv_usage=measured(draw[0]),
            prompt_tokens_total=measured(1e6 + 1e4 * variant),
            generation_tokens_total=measured(1e6 + 2e3 * variant),
        ),
        net_bytes_per_s=measured(1e6 * draw[1]),
        gpus=tuple(
            replace(
                gpu,
                vram_free_bytes=measured(8e9 * draw[2]),
                gpu_utilisation=measured(draw[3]),
                pcie_bytes_per_s=measured(1e9 * draw[4]),
                health=None
                if gpu.health is None
                else replace(gpu.health, temperature_celsius=measured(60 + warmer)),
                health_age_s=0.5 * draw[5],
            )
            for gpu in sample.gpus
        ),
    )


class EnvoyTraffic:
    """The reports of one Envoy: each of its VMs has requests open on every node, and news of those
    that began and ended. ``requests_per_s`` are this Envoy's.
    """

    def __init__(self, number: int, node_ids: list[int], requests_per_s: float) -> None:
        self.name = f"envoy-{number}"
        self._incarnations = [1 + number * VMS + vm for vm in range(VMS)]
        rng = np.random.default_rng(number)
        started = round(requests_per_s * INTERVAL_S / VMS)
        self._bodies = [_batch(node_ids, started, rng) for _ in range(VARIANTS)]
        workers = observation_pb2.Workers(envoy=self.name, live=VMS, expected=VMS)
        self._workers = observation_pb2.ObservationReport(workers=workers).SerializeToString()

    def reports(self, sequence: int, unix_s: float) -> list[bytes]:
        """One for each VM: the feed passes on what it has as soon as it has it."""
        return [
            _field(1, self._head(incarnation, sequence, unix_s) + self._body(vm + sequence))
            + self._workers
            for vm, incarnation in enumerate(self._incarnations)
        ]

    def _head(self, incarnation: int, sequence: int, unix_s: float) -> bytes:
        return observation_pb2.ObservationBatch(
            envoy=self.name,
            incarnation=incarnation,
            sequence=sequence,
            taken_at_unix_ms=round(unix_s * 1e3),
            table_version=round(unix_s * 1e3),
        ).SerializeToString()

    def _body(self, number: int) -> bytes:
        return self._bodies[number % VARIANTS]


def _batch(node_ids: list[int], started: int, rng: np.random.Generator) -> bytes:
    begun, first, ended = (
        np.bincount(rng.integers(len(node_ids), size=started), minlength=len(node_ids)).tolist()
        for _ in range(3)
    )
    batch = observation_pb2.ObservationBatch(picked=started)
    nodes = []
    for node_id, new, answering, done in zip(node_ids, begun, first, ended, strict=True):
        open_now = _OPEN + new
        nodes.append(
            NodeObservation(
                node_id,
                in_flight=open_now,
                open_age_s_sum=open_now * 5.0 * rng.random(),
                pending_tokens=new * _PROMPT_TOKENS,
                kv_tokens=open_now * (_PROMPT_TOKENS + _OUTPUT_TOKENS),
                started=new,
                prefill=PrefillSums(answering, answering * _PROMPT_TOKENS, answering * _FIRST_S),
                first_byte_count=done,
                first_byte_ms_sum=done * _FIRST_S * 1e3,
                succeeded=done,
                finish_stop=done,
                tpot_count=done,
                tpot_ms_sum=done * _TOKEN_MS,
                total_count=done,
                total_ms_sum=done * (_FIRST_S * 1e3 + _OUTPUT_TOKENS * _TOKEN_MS),
                chunks=done * _OUTPUT_TOKENS,
                output_tokens=done * _OUTPUT_TOKENS,
            )
        )
    batch.open, batch.news = encode_nodes(nodes)
    for _ in range(started):
        batch.answers.add(user_bucket=int(rng.integers(65_536)) + 1, model="llama-3.1-8b")
        batch.answers[-1].output_tokens = _OUTPUT_TOKENS
        node_id = node_ids[int(rng.integers(len(node_ids)))]
        batch.placements.add(node_id=node_id, blocks=rng.integers(2**63, size=8).tolist())
    return batch.SerializeToString()


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((number << 3 | 2,)) + bytes(length) + bytes((size,)) + content
