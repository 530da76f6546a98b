"""What the agents and the Envoys of a large fleet send in each round, as bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isocost.model import (
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    Model,
    Node,
    NodeSample,
    measured,
)
from isocost.telemetry.report import encode_report
from isocost.v1 import observation_pb2, telemetry_pb2
from tests.unit.hardware_samples import WELL

ENVOYS, VMS = 4, 2
#: One GPU in so many has another temperature than in the round before, ...
_TEMPERATURE = 10
#: ... and one node in so many has NVLinks that are down.
_LINK_DOWN = 100
_NODES_OF_A_RACK = 16
#: Of one VM in one round.
_ANSWERS, _PLACEMENTS, _BLOCKS = 32, 16, 8

Numbers = list[list[int]]


@dataclass(frozen=True, slots=True)
class Round:
    """A TelemetryReport of each agent and an ObservationReport of each Envoy, serialised."""

    telemetry: list[bytes]
    observations: list[bytes]


class Fleet:
    """``nodes`` agents with a node of ``gpus`` GPUs each; nothing they tell stays as it was."""

    def __init__(self, nodes: int, gpus: int, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        samples = [node_sample(number, gpus) for number in range(nodes)]
        self._reports = [
            encode_report(sample.node.host, 0, 0.0, 0.0, [sample]) for sample in samples
        ]
        self._health = [_health(celsius) for celsius in range(40, 80)]
        ids = [sample.node.id for sample in samples]
        self._envoys = [_envoy(number, ids) for number in range(ENVOYS)]
        self._gpus, self._sequence = gpus, 0

    def round(self, now_s: float, unix_s: float) -> Round:
        """What is sent at ``now_s``; call it once for each round."""
        self._sequence += 1
        return Round(self._telemetry(now_s, unix_s), self._observations(unix_s))

    def _telemetry(self, now_s: float, unix_s: float) -> list[bytes]:
        engine = self._integers((50, 50, 1000, 900, 900, 10**8), len(self._reports))
        gpus = iter(self._integers((8 * 10**9, 100, 10**10, 500), len(self._reports) * self._gpus))
        return [
            self._report(report, numbers, [next(gpus) for _ in range(self._gpus)], now_s, unix_s)
            for report, numbers in zip(self._reports, engine, strict=True)
        ]

    def _report(
        self,
        report: telemetry_pb2.TelemetryReport,
        numbers: list[int],
        of_gpus: Numbers,
        now_s: float,
        unix_s: float,
    ) -> bytes:
        report.sequence = self._sequence
        report.wall_unix_ms, report.monotonic_ms = round(unix_s * 1e3), round(now_s * 1e3)
        node = report.nodes[0]
        running, waiting, kv_permille, prompt, generated, net = numbers
        node.engine.running.value, node.engine.waiting.value = running, waiting
        node.engine.kv_usage.value = kv_permille / 1e3
        node.engine.prompt_tokens_total.value += prompt
        node.engine.generation_tokens_total.value += generated
        node.net_bytes_per_s.value = net
        for gpu, (free, percent, pcie, age_ms) in zip(node.gpus, of_gpus, strict=True):
            gpu.vram_free_bytes.value, gpu.pcie_bytes_per_s.value = free, pcie
            gpu.gpu_utilisation.value = percent / 100
            gpu.health_age_ms = age_ms
            if pcie % _TEMPERATURE == 0:
                gpu.health = self._health[free % len(self._health)]
        return report.SerializeToString()

    def _observations(self, unix_s: float) -> list[bytes]:
        return [self._envoy_report(report, unix_s) for report in self._envoys]

    def _envoy_report(self, report: observation_pb2.ObservationReport, unix_s: float) -> bytes:
        for batch in report.batches:
            batch.sequence = self._sequence
            batch.taken_at_unix_ms = round(unix_s * 1e3)
            batch.picked = len(batch.nodes)
            numbers = self._integers((8, 3, 2000, 500), len(batch.nodes))
            for node, (open_now, ended, tokens, ms) in zip(batch.nodes, numbers, strict=True):
                _observe(node, 1 + open_now, 1 + ended, 1 + tokens, 1 + ms)
            for answer, (bucket, tokens) in zip(
                batch.answers, self._integers((65_536, 900), _ANSWERS), strict=True
            ):
                answer.user_bucket, answer.output_tokens = 1 + bucket, tokens
            for placement in batch.placements:
                placement.blocks[:] = self._random.integers(2**63, size=_BLOCKS).tolist()
        return report.SerializeToString()

    def _integers(self, below: tuple[int, ...], rows: int) -> Numbers:
        drawn: NDArray[np.int64] = self._random.integers(below, size=(rows, len(below)))
        return drawn.tolist()


def node_sample(number: int, gpus: int) -> NodeSample:
    name = f"node-{number:05}"
    links = measured(17 / 18 if number % _LINK_DOWN == 0 else 1.0)
    return NodeSample(
        Node(
            name,
            f"{name}@1790000000",
            f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:8000",
            rack=f"rack-{number // _NODES_OF_A_RACK}",
            host=f"host-{number}",
            gpu_kind="H100" if number % 2 else "A100",
            gpu_count=gpus,
            models=(Model("llama-3.1-8b", ("llama",), 16, 16 * 10**9, 131_072, 131_072),),
        ),
        engine_up=True,
        gpus=tuple(
            GpuSample(
                f"GPU-{number:05}-{gpu}",
                vram_total_bytes=measured(80e9),
                vram_free_bytes=measured(8e9),
                gpu_utilisation=measured(0.5),
                pcie_bytes_per_s=measured(1e9),
                nvlink_active_fraction=links,
                health=WELL,
            )
            for gpu in range(gpus)
        ),
        engine=EngineSample(
            running=measured(1),
            waiting=measured(0),
            kv_usage=measured(0.5),
            kv_pool_tokens=measured(400_000),
            prompt_tokens_total=measured(10**6),
            generation_tokens_total=measured(10**6),
        ),
        net_bytes_per_s=measured(1e6),
        cuda_handles=UNSUPPORTED,
    )


def _health(celsius: int) -> bytes:
    sample = node_sample(0, 1)
    health = replace(WELL, temperature_celsius=measured(celsius))
    gpu = replace(sample.gpus[0], health=health)
    report = encode_report("a", 0, 0.0, 0.0, [replace(sample, gpus=(gpu,))])
    return report.nodes[0].gpus[0].health


def _envoy(number: int, ids: list[int]) -> observation_pb2.ObservationReport:
    report = observation_pb2.ObservationReport()
    report.workers.envoy, report.workers.live, report.workers.expected = f"e{number}", VMS, VMS
    for vm in range(VMS):
        batch = report.batches.add(envoy=f"e{number}", incarnation=1 + number * VMS + vm)
        for node_id in ids:
            batch.nodes.add(node_id=node_id)
        for _ in range(_ANSWERS):
            batch.answers.add(model="llama-3.1-8b")
        for placement in range(_PLACEMENTS):
            batch.placements.add(node_id=ids[placement * len(ids) // _PLACEMENTS])
    return report


def _observe(
    node: observation_pb2.NodeObservation, open_now: int, ended: int, tokens: int, ms: int
) -> None:
    node.in_flight, node.open_age_ms_sum = open_now, open_now * ms
    node.started = node.succeeded = node.finish_stop = ended
    node.first_byte_count = node.tpot_count = node.total_count = node.prefill_count = ended
    node.first_byte_us_sum = node.prefill_us_sum = ended * ms * 1000
    node.tpot_us_sum, node.total_us_sum = ended * (20 + ms // 20) * 1000, ended * ms * 20_000
    node.chunks = node.progress = node.output_tokens = ended * 200
    node.prefill_tokens_sum, node.pending_tokens = ended * tokens, tokens
    node.kv_tokens = open_now * tokens
