"""The lines above the tables of ``isocost nodes --why``."""

from __future__ import annotations

from typing import Any

import pytest

from isocost.cli.why_text import why_text

TABLES = ("weight", "entropy", "share", "predicted_s")


def answer(**more: object) -> dict[str, Any]:
    known = {"guards": [], "late_ms": None, "late_limit_ms": None, "by_model": []}
    standing = {"name": "gpu-3", "state": "suspect", "reason": "jitter", "policy": "equal_cost"}
    return standing | known | {name: {"value": 1.0, "terms": []} for name in TABLES} | more


@pytest.mark.parametrize("late_ms", [182.04, 0.0, -3.0])
def test_by_how_much_first_tokens_are_late_is_told_where_it_is_known(late_ms: float) -> None:
    lines = why_text(answer(guards=["jitter"], late_ms=late_ms, late_limit_ms=50.0)).splitlines()
    assert lines[0] == "gpu-3: suspect (jitter), policy equal_cost"
    assert lines[1] == "doubted by: jitter"
    how = "later" if late_ms >= 0.0 else "earlier"
    late = f"first tokens {abs(late_ms):.4g} ms {how} than load explains and is usual; limit 50 ms"
    assert lines[2] == late
    assert len(why_text(answer()).splitlines()) == len(lines) - 2


def test_where_it_is_not_known_of_a_suspect_that_is_said() -> None:
    lines = why_text(answer(guards=["jitter"])).splitlines()
    assert lines[2] == "first tokens: too few lately to tell whether they are late"


def test_of_a_node_with_several_models_each_ones_numbers_are_told_and_their_entropy_once() -> None:
    models = [
        {
            "model": name,
            **{key: {"value": value, "terms": []} for key in TABLES if key != "entropy"},
        }
        for name, value in (("7b", 0.75), ("72b", 0.25))
    ]
    told = [line for line in why_text(answer(by_model=models)).splitlines()[1:] if line.strip()]
    titles = [line.split(" of")[0] for line in told if not line.startswith("  ")]
    time = "s for the mean request; the sum"
    assert titles == [
        "entropy 1 the sum",
        *("model 7b", "weight 0.75", "share 0.75", f"predicted time 0.75 {time}"),
        *("model 72b", "weight 0.25", "share 0.25", f"predicted time 0.25 {time}"),
    ]
