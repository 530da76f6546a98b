"""Entropy by document A's formula; adding a request never lowers it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.config import EntropySettings
from isocost.score.entropy import entropy_terms, node_capacity
from tests.unit.fleet_builder import ABSENT, node, sample, telemetry_of

SETTINGS = EntropySettings()
share = st.floats(0.0, 1.0)


def entropy(
    settings: EntropySettings = SETTINGS, open_age_s_sum: float = 0.0, **change: object
) -> float:
    one = node()
    telemetry = telemetry_of([one], [sample(one, **change)])  # type: ignore[arg-type]
    terms = entropy_terms(
        telemetry, np.array([open_age_s_sum]), node_capacity([one], settings), settings
    )
    return float(terms.total[0])


def test_each_term_follows_the_formula() -> None:
    assert entropy(kv_usage=0.0) == 0.0
    assert entropy(kv_usage=0.5, kv_pool_gb=60.0) == pytest.approx(0.3 * 30.0)
    assert entropy(kv_usage=0.0, open_age_s_sum=128.0) == pytest.approx(0.5 * 128.0 / 64.0)
    assert entropy(kv_usage=0.0, net=64e6) == pytest.approx(0.2 * 5.0 * 64.0 / 64.0)
    assert entropy(kv_usage=0.0, waiting=7.0) == pytest.approx(0.1 * 7.0)


def test_capacity_normalises_mixed_kinds() -> None:
    settings = EntropySettings(capacity={"H100": 2.0})
    assert entropy(settings, kv_usage=0.5) == pytest.approx(0.3 * 30.0 / 2.0)
    assert node_capacity([node(gpu_count=4), node(gpu_kind="A100")], settings).tolist() == [8, 1]


def test_an_unknown_queue_counts_as_the_fleets_median() -> None:
    nodes = [node(f"n{index}") for index in range(3)]
    samples = [
        sample(nodes[0], kv_usage=0.0, waiting=10.0),
        sample(nodes[1], kv_usage=0.0, waiting=10.0),
        sample(nodes[2], kv_usage=0.0, waiting=ABSENT),
    ]
    telemetry = telemetry_of(nodes, samples)
    terms = entropy_terms(telemetry, np.zeros(3), node_capacity(nodes, SETTINGS), SETTINGS)
    assert terms.total.tolist() == pytest.approx([1.0, 1.0, 1.0])


@given(
    kv_usage=share,
    more_kv=share,
    age_s=st.floats(0.0, 1e5),
    more_age_s=st.floats(0.0, 1e5),
    waiting=st.integers(0, 5000),
    queued=st.booleans(),
    net=st.floats(0.0, 1e11),
    more_net=st.floats(0.0, 1e11),
)
def test_adding_a_request_never_lowers_entropy(
    kv_usage: float,
    more_kv: float,
    age_s: float,
    more_age_s: float,
    waiting: int,
    queued: bool,
    net: float,
    more_net: float,
) -> None:
    # A request more: KV and open age grow or stay, and it either waits or moves bytes.
    before = entropy(kv_usage=kv_usage, open_age_s_sum=age_s, waiting=waiting, net=net)
    after = entropy(
        kv_usage=min(1.0, kv_usage + more_kv),
        open_age_s_sum=age_s + more_age_s,
        waiting=waiting + queued,
        net=net + more_net,
    )
    assert after >= before
    assert np.isfinite(after)
