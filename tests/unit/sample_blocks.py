"""Samples as a control plane holds them, written with the rows that agents write."""

from __future__ import annotations

from collections.abc import Sequence

from isocost.discovery.report import AgentReport
from isocost.model import GpuSample, NodeSample
from isocost.sample_rows import engine_row, gpu_row, node_row
from isocost.score.block import Block, Entry, Health, HealthOfGpus
from isocost.score.fleet_samples import FleetSamples, layout
from isocost.score.hardware import suspicions


def agent_report(
    agent: str,
    sequence: int,
    wall_unix_s: float,
    monotonic_s: float,
    samples: Sequence[NodeSample],
    stream: int = 0,
) -> AgentReport:
    """What an agent told, of nodes that nobody checks here."""
    return AgentReport(agent, sequence, wall_unix_s, monotonic_s, block(samples), stream=stream)


def samples_of(report: AgentReport) -> tuple[NodeSample, ...]:
    """What it told, one by one."""
    return tuple(map(report.block.sample, report.block.entries))


def block(samples: Sequence[NodeSample]) -> Block:
    """They were taken at the same time."""
    (taken_s,) = {sample.taken_s for sample in samples} or {0.0}
    entries, end = list[Entry](), 0
    for row, sample in enumerate(samples):
        first, end = end, end + len(sample.gpus)
        entries.append(Entry(sample.node, tuple(gpu.uuid for gpu in sample.gpus), row, first, end))
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    health = tuple(map(_health, gpus))
    unwell = tuple(place for place, told in enumerate(health) if told and not told.well)
    return Block(
        tuple(entries),
        taken_s,
        b"".join(map(node_row, samples)),
        b"".join(map(gpu_row, gpus)),
        HealthOfGpus(health, unwell),
        {
            row: [(model, engine_row(engine)) for model, engine in sample.by_model]
            for row, sample in enumerate(samples)
        },
    )


def fleet_samples(samples: Sequence[NodeSample | None]) -> FleetSamples:
    """The latest samples of a fleet, each of which came from an agent of its own."""
    blocks = [block([sample]) for sample in samples if sample is not None]
    numbers = iter(range(len(blocks)))
    found = [
        None if sample is None else ((number := next(numbers)), blocks[number].entries[0])
        for sample in samples
    ]
    return FleetSamples(layout(blocks, found), blocks)


def _health(gpu: GpuSample) -> Health | None:
    return None if gpu.health is None else Health(gpu.health, well=not suspicions(gpu.health))
