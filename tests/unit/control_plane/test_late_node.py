"""A node that a slow network makes late is not taken for a slow one: its speeds stay."""

from __future__ import annotations

import pytest

from isocost.model import Model
from isocost.observe.batch import Batch, NodeObservation, PrefillSums
from isocost.weight.standing import Reason
from tests.unit.control_plane.test_pipeline import READY_S, Bench, serving
from tests.unit.fleet_builder import KV_BYTES_PER_TOKEN, node, sample

#: The last one has two models: two rows of the table, which both are late.
MODELS = tuple(Model(name, kv_bytes_per_token=KV_BYTES_PER_TOKEN) for name in ("small", "large"))
NODES = [
    node("a", address="192.0.2.1:80"),
    node("b", address="192.0.2.2:80"),
    node("both", address="192.0.2.3:80", models=MODELS),
]
#: A first token's pending tokens, its time, and what the network adds.
TOKENS, FIRST_S, DELAY_S = 1000.0, 0.1, 0.15
TICK_S = 0.2


class Streams:
    """Each row gets two first tokens in every tick."""

    def __init__(self) -> None:
        self.bench: Bench = serving(*map(sample, NODES))
        self._now_s = READY_S
        self._sequence = 0

    def run(self, seconds: float, delay_s: float) -> list[float]:
        """What was learned of the rows, in seconds per token; ``delay_s``: the last node's."""
        ids = [item.id for item in self.bench.roster().nodes]
        for _ in range(round(seconds / TICK_S)):
            self._now_s += TICK_S
            self._sequence += 1
            seen = tuple(
                NodeObservation(
                    row,
                    started=2,
                    succeeded=2,
                    tpot_count=2,
                    tpot_ms_sum=20.0,
                    prefill=PrefillSums(2, 2 * TOKENS, 2 * (FIRST_S + delay_s * (place >= 2))),
                )
                for place, row in enumerate(ids)
            )
            self.bench.observer.apply(Batch("edge", 1, self._sequence, seen), self._now_s)
            self.bench.report(self._now_s, *map(sample, NODES))
            self.bench.tick(self._now_s)
        latest = self.bench.pipeline.latest
        assert latest is not None
        return list(latest.by_model.costs.token.value.tolist())


def test_of_a_late_node_no_slowness_is_learned() -> None:
    streams = Streams()
    before = streams.run(15.0, 0.0)
    late = streams.run(15.0, DELAY_S)
    latest = streams.bench.pipeline.latest
    assert latest is not None
    assert [item.reason for item in latest.decision.state.standings] == [
        *[Reason.OK] * 2,
        Reason.JITTER,
    ]
    # It was found after 2 s. By its times a token takes three times as long.
    assert late == pytest.approx(before, rel=0.3)
    assert streams.run(10.0, 0.0) == pytest.approx(before, rel=0.3)
