"""What a tick is given of the fleet: who is there, what is known of each, and since when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isocost.discovery.announce import Announcement, Heard
from isocost.model import Node
from isocost.score.block import Entry
from isocost.score.columns import Floats
from isocost.score.fleet_samples import FleetSamples, layout
from isocost.weight.told import Discovered


@dataclass(frozen=True, slots=True)
class FleetView:
    """All nodes as discovery sees them, [n] each. ``nodes`` is the same object while these are the
    same nodes. ``ages_s`` is the time since each sample arrived, infinite without one;
    ``clock_offsets_s`` is each node's clock less this machine's, NaN without a sample.
    ``discovered`` is what lists and probes say of them, None if that is nothing.
    """

    nodes: tuple[Node, ...]
    samples: FleetSamples
    ages_s: Floats
    clock_offsets_s: Floats
    discovered: Discovered | None = None


class LatestSamples:
    """Where the latest sample of each node is found, for as long as nobody claims anything else."""

    def __init__(self, claims: Sequence[Announcement | None]) -> None:
        numbers: dict[int, int] = {}
        self._heard: list[Heard] = []
        found: list[tuple[int, Entry] | None] = []
        for claim in claims:
            if claim is None:
                found.append(None)
                continue
            number = numbers.setdefault(id(claim.heard), len(numbers))
            if number == len(self._heard):
                self._heard.append(claim.heard)
            found.append((number, claim.entry))
        self._layout = layout([heard.report.block for heard in self._heard], found)

    def view(
        self, nodes: tuple[Node, ...], discovered: Discovered | None, now_s: float
    ) -> FleetView:
        """What was heard until now of these nodes."""
        reports = [heard.report for heard in self._heard]
        samples = FleetSamples(self._layout, tuple([report.block for report in reports]))
        arrived_s = np.array([heard.arrived_s for heard in self._heard] + [-math.inf])
        offset_s = np.array([report.clock_offset_s for report in reports] + [math.nan])
        block = self._layout.block
        return FleetView(
            nodes,
            samples,
            now_s - arrived_s[block],
            offset_s[block] + samples.node_rows["clock_offset_ms"] / 1e3,
            discovered,
        )
