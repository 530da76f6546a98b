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
from isocost.v1 import observation_pb2, table_pb2, telemetry_pb2
from tests.unit.hardware_samples import WELL

ENVOYS, VMS = 4, 2
#: One GPU in so many has another temperature than in the round before, ...
_TEMPERATURE = 10
#: ... and one node in so many has NVLinks that are down.
_LINK_DOWN = 100
_NODES_OF_A_RACK = 16
#: Of one VM in one round.
_ANSWERS, _PLACEMENTS, _BLOCKS = 32, 16, 8

Drawn = NDArray[np.int64]

#: The rows of telemetry.proto and of observation.proto.
_SIGNAL = np.dtype([("state", "u1"), ("age_ms", "<u4"), ("value", "<f8")])
_NODE = np.dtype([("signals", _SIGNAL, 10), ("flags", "u1"), ("clock_offset_ms", "<i8")])
_GPU = np.dtype([("signals", _SIGNAL, 5), ("lost", "u1"), ("health_age_ms", "<u4")])
_OPEN = np.dtype([("id", "<u8"), ("in_flight", "<u4"), ("sums", "<u8", 3)])
_NEWS = np.dtype([("id", "<u8"), ("counts", "<u4", 17), ("sums", "<u8", 7)])


@dataclass(frozen=True, slots=True)
class Round:
    """A TelemetryReport of each agent and an ObservationReport of each Envoy, serialised."""

    telemetry: list[bytes]
    observations: list[bytes]


class Fleet:
    """``nodes`` agents with a node of ``gpus`` GPUs each; every number changes."""

    def __init__(self, nodes: int, gpus: int, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        samples = [node_sample(number, gpus) for number in range(nodes)]
        reports = [encode_report("", 0, 0.0, 0.0, [sample]) for sample in samples]
        self._agents = [sample.node.host for sample in samples]
        self._lists = [report.nodes for report in reports]
        self._nodes = np.frombuffer(b"".join(r.node_rows for r in reports), _NODE).copy()
        self._gpus = np.frombuffer(b"".join(r.gpu_rows for r in reports), _GPU).copy()
        self._temperatures = [_health(celsius) for celsius in range(40, 80)]
        self._health = [[self._temperatures[20]] * gpus for _ in samples]
        self._ids = np.array(sorted(sample.node.id for sample in samples), dtype=np.uint64)
        self._gpu_count, self._sequence = gpus, 0

    def round(self, now_s: float, unix_s: float) -> Round:
        """What is sent at ``now_s``; call it once for each round."""
        self._sequence += 1
        return Round(
            self._telemetry(now_s, unix_s),
            [self._envoy_report(number, unix_s) for number in range(ENVOYS)],
        )

    def _telemetry(self, now_s: float, unix_s: float) -> list[bytes]:
        own, of_gpus = self._nodes["signals"]["value"], self._gpus["signals"]["value"]
        drawn = self._integers((50, 50, 1000, 900, 900, 10**8), len(self._nodes))
        own[:, :3] = drawn[:, :3] / (1, 1, 1e3)
        own[:, 4:6] += drawn[:, 3:5]
        own[:, 7] = drawn[:, 5]
        drawn = self._integers((8 * 10**9, 10**10, 100, 500, 10**6), len(self._gpus))
        of_gpus[:, 1], of_gpus[:, 2], of_gpus[:, 4] = drawn[:, 0], drawn[:, 1], drawn[:, 2] / 100
        self._gpus["health_age_ms"] = drawn[:, 3]
        temperatures = drawn[:, 4].reshape(-1, self._gpu_count).tolist()
        return [
            self._report(place, changes, now_s, unix_s)
            for place, changes in enumerate(temperatures)
        ]

    def _report(self, place: int, temperatures: list[int], now_s: float, unix_s: float) -> bytes:
        gpus = slice(place * self._gpu_count, (place + 1) * self._gpu_count)
        report = telemetry_pb2.TelemetryReport(
            agent=self._agents[place],
            sequence=self._sequence,
            wall_unix_ms=round(unix_s * 1e3),
            monotonic_ms=round(now_s * 1e3),
            node_rows=self._nodes[place : place + 1].tobytes(),
            gpu_rows=self._gpus[gpus].tobytes(),
        )
        health = self._health[place]
        changed = [gpu for gpu, drawn in enumerate(temperatures) if drawn % _TEMPERATURE == 0]
        for gpu in changed:
            health[gpu] = self._temperatures[temperatures[gpu] % len(self._temperatures)]
        if changed or self._sequence == 1:
            report.health = telemetry_pb2.HealthList(gpus=health).SerializeToString()
        if self._sequence == 1:
            report.nodes = self._lists[place]
        return report.SerializeToString()

    def _envoy_report(self, number: int, unix_s: float) -> bytes:
        report = observation_pb2.ObservationReport(
            batches=[self._batch(number, vm, unix_s) for vm in range(VMS)]
        )
        report.workers.envoy, report.workers.live, report.workers.expected = f"e{number}", VMS, VMS
        return report.SerializeToString()

    def _batch(self, number: int, vm: int, unix_s: float) -> observation_pb2.ObservationBatch:
        ids, answers = self._ids, self._integers((65_536, 900), _ANSWERS).tolist()
        state, news = _observed(ids, 1 + self._integers((8, 3, 2000, 500), len(ids)))
        return observation_pb2.ObservationBatch(
            envoy=f"e{number}",
            incarnation=1 + number * VMS + vm,
            sequence=self._sequence,
            taken_at_unix_ms=round(unix_s * 1e3),
            picked=len(ids),
            open=state,
            news=news,
            answers=[
                observation_pb2.Answer(
                    user_bucket=1 + bucket, model="llama-3.1-8b", output_tokens=tokens
                )
                for bucket, tokens in answers
            ],
            placements=[
                table_pb2.Placement(
                    node_id=int(ids[placement * len(ids) // _PLACEMENTS]),
                    blocks=self._random.integers(2**63, size=_BLOCKS).tolist(),
                )
                for placement in range(_PLACEMENTS)
            ],
        )

    def _integers(self, below: tuple[int, ...], rows: int) -> Drawn:
        drawn: Drawn = self._random.integers(below, size=(rows, len(below)))
        return drawn


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
    gpu = replace(sample.gpus[0], health=replace(WELL, temperature_celsius=measured(celsius)))
    report = encode_report("a", 0, 0.0, 0.0, [replace(sample, gpus=(gpu,))])
    return telemetry_pb2.HealthList.FromString(report.health).gpus[0]


def _observed(ids: NDArray[np.uint64], drawn: Drawn) -> tuple[bytes, bytes]:
    """What is open on each node and its news; ``drawn`` [n, 4]: requests that are open and that
    ended, tokens of each prompt, ms to each first token.
    """
    open_now, ended, tokens, ms = drawn.T
    state, news = np.zeros(len(ids), _OPEN), np.zeros(len(ids), _NEWS)
    state["id"] = news["id"] = ids
    state["in_flight"] = open_now
    state["sums"] = np.column_stack((open_now * ms, tokens, open_now * tokens))
    # Started, succeeded, first bytes, times per token, totals, prefills, ended by themselves.
    news["counts"][:, [0, 1, 9, 10, 11, 12, 13]] = ended[:, np.newaxis]
    first_us = ended * ms * 1000
    news["sums"] = np.column_stack(
        (
            *(first_us, ended * (20 + ms // 20) * 1000, ended * ms * 20_000),
            *(ended * 200, ended * 200, ended * tokens, first_us),
        )
    )
    return state.tobytes(), news.tobytes()
