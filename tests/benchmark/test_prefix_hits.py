"""What the simulated policy finds in the caches, remembering and told."""

from __future__ import annotations

from statistics import mean

from tests.benchmark.prefix_hits import LEAST, simulated

DURATION_S, SEEDS = 120.0, range(1, 5)


def test_what_was_seen_finds_nearly_as_much_as_the_true_caches() -> None:
    told, remembering = (
        mean(simulated(DURATION_S, seed, told) for seed in SEEDS) for told in (True, False)
    )
    assert told > 0.1
    assert remembering >= LEAST * told
