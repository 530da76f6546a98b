"""Targets against each other."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.bench import json_text
from isocost.bench.assemble import Measurement
from isocost.bench.comparison import METRICS, Ratio, compare, ratios
from isocost.bench.goodput import Slo
from isocost.bench.report import ProcessCpu, TargetInfo, TraceInfo
from isocost.bench.result import RequestResult
from isocost.bench.rounds import RoundResults
from tests.unit.bench.measured import answer

Turns = dict[int, list[RequestResult]]


def turns(seed: int, rounds: int, count: int = 60, factor: float = 1.0) -> Turns:
    """Rounds of requests at the same times whatever the seed, with log-normal times."""
    source = random.Random(seed)
    return {
        number: [
            answer(
                at_s=number * count + index * 0.9,
                ttft_ms=factor * (ttft := source.lognormvariate(4, 1)),
                e2e_ms=factor * (ttft + source.lognormvariate(5, 1)),
            )
            for index in range(count)
        ]
        for number in range(rounds)
    }


def failed(results: list[RequestResult]) -> list[RequestResult]:
    return [answer(result.scheduled_s, failure="reset") for result in results]


@pytest.mark.parametrize(("rounds", "method"), [(1, "blocks"), (2, "blocks"), (3, "rounds")])
def test_three_rounds_are_enough_for_an_interval_over_rounds(rounds: int, method: str) -> None:
    found = ratios(turns(1, rounds), turns(2, rounds), Slo(ttft_ms=100), seed=1)
    assert list(found) == list(METRICS)
    assert {ratio.method for ratio in found.values()} == {method}
    for ratio in found.values():
        assert ratio.ratio is not None and ratio.low is not None and ratio.high is not None
        assert ratio.low < ratio.ratio < ratio.high and ratio.reason is None


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_target_that_takes_1_3_times_as_long_is_found(rounds: int) -> None:
    found = ratios(turns(3, rounds, 400, 1.3), turns(4, rounds, 400), Slo(), seed=1)
    for name in METRICS[:4]:
        low, high = found[name].low, found[name].high
        assert low is not None and high is not None and low < 1.3 < high
    assert (found["ttft_ms.p50"].low or 0) > 1
    assert found["goodput"] == Ratio(
        pytest.approx(1.0), pytest.approx(1.0), pytest.approx(1.0), found["goodput"].method
    )


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_figures_of_the_ratios_are_those_of_the_same_name(rounds: int) -> None:
    """Each metric is moved alone: every other ratio stays 1."""
    base = turns(5, rounds)

    def changed(**factors: float) -> dict[str, float | None]:
        target = {
            number: [
                answer(
                    result.scheduled_s,
                    (result.ttft_ms or 0) * factors.get("ttft", 1),
                    e2e_ms=result.e2e_ms * factors.get("e2e", 1),
                )
                for result in results
            ]
            for number, results in base.items()
        }
        found = ratios(target, base, Slo(ttft_ms=1e6, e2e_ms=1e9), seed=1)
        return {name: ratio.ratio for name, ratio in found.items()}

    slower_start = changed(ttft=1.5)
    assert slower_start["ttft_ms.p50"] == pytest.approx(1.5)
    assert slower_start["ttft_ms.p99"] == pytest.approx(1.5)
    assert slower_start["e2e_ms.p99"] == pytest.approx(1.0)
    slower_end = changed(e2e=1.5)
    assert slower_end["e2e_ms.p99"] == pytest.approx(1.5)
    assert slower_end["ttft_ms.p99"] == pytest.approx(1.0)
    assert (slower_end["tpot_ms.p50"] or 0) > 1.5


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 6]), st.floats(0.2, 5))
def test_exchanging_target_and_baseline_inverts_the_ratio(
    seed: int, rounds: int, factor: float
) -> None:
    ours, theirs = turns(seed, rounds, 30, factor), turns(seed + 1, rounds, 30)
    there = ratios(ours, theirs, Slo(ttft_ms=300), seed=1)
    back = ratios(theirs, ours, Slo(ttft_ms=300), seed=1)
    for name in METRICS:
        one, other = there[name], back[name]
        if one.ratio is None or other.ratio is None:
            assert one.ratio is other.ratio
            continue
        assert one.ratio == pytest.approx(1 / other.ratio)
        for low, high in ((one.low, other.high), (other.low, one.high)):
            assert low == (0.0 if high is None else pytest.approx(1 / high))


def test_goodput_compares_what_met_the_slo_and_not_what_the_last_answer_took() -> None:
    base = {0: [answer(float(index)) for index in range(40)]}
    half = {
        0: [
            answer(float(index), 100 if index % 2 else 900, e2e_ms=9000 if index == 39 else None)
            for index in range(40)
        ]
    }
    assert ratios(half, base, Slo(ttft_ms=500), seed=1)["goodput"].ratio == pytest.approx(0.5)


def test_each_round_is_drawn_by_itself() -> None:
    """Drawn as one, the good half of either round would always come with the other's bad half."""
    base = {number: [answer(float(index)) for index in range(40)] for number in (0, 1)}
    half = {
        number: [
            answer(float(index), 100 if (index < 20) == number else 900) for index in range(40)
        ]
        for number in (0, 1)
    }
    found = ratios(half, base, Slo(ttft_ms=500), seed=1)["goodput"]
    assert found.ratio == pytest.approx(0.5)
    assert found.low is not None and found.high is not None
    assert found.low < 0.45 and found.high > 0.55


def test_what_is_not_defined_says_why() -> None:
    good = turns(1, 1)
    nothing = {0: failed(good[0])}
    found = ratios(nothing, good, Slo(), seed=1)
    assert found["ttft_ms.p50"] == Ratio(reason="the target has no value")
    assert found["goodput"] == Ratio(reason="the target's value is 0")
    found = ratios(good, nothing, Slo(), seed=1)
    assert found["e2e_ms.p99"] == Ratio(reason="the baseline has no value")
    assert found["goodput"] == Ratio(reason="the baseline's value is 0")
    no_pair = Ratio(reason="no round was completed by both")
    assert set(ratios({}, good, Slo(), seed=1).values()) == {no_pair}
    assert ratios({0: []}, {0: []}, Slo(), seed=1)["goodput"].ratio is None


def test_a_round_without_a_value_is_not_left_out() -> None:
    """Leaving out the rounds in which a target failed would flatter it."""
    good = turns(1, 4)
    bad = {**good, 2: failed(good[2])}
    found = ratios(bad, good, Slo(), seed=1)
    assert found["goodput"].ratio == pytest.approx(0.75)
    assert {ratio.method for ratio in found.values()} == {"blocks"}


def test_rounds_that_only_one_target_has_are_not_compared() -> None:
    found = ratios(turns(1, 4), {**turns(2, 3), 9: turns(2, 1)[0]}, Slo(), seed=1)
    assert found == ratios(turns(1, 3), turns(2, 3), Slo(), seed=1)


def test_a_comparison_holds_every_targets_report_and_its_ratios_to_the_first() -> None:
    schedule = [
        RoundResults(number, name, tuple(results))
        for name, seed in (("a", 1), ("b.c", 2))
        for number, results in turns(seed, 3).items()
    ]
    runs = {
        name: Measurement(
            seed=7,
            results=tuple(r for turn in schedule if turn.target == name for r in turn.results),
            versions={"isocost": "1"},
            target=TargetInfo(name, f"http://{name}"),
            trace=TraceInfo("t", 180, 60.0),
            slo=Slo(ttft_ms=100),
            machine_busy=0.9,
            processes=(ProcessCpu(1, "python", 0.5),),
            interrupted=True,
        )
        for name in ("a", "b.c")
    }
    comparison = compare(schedule, runs)
    data = comparison.to_data()
    assert json.loads(json_text.text(data)) == data
    assert list(data) == [
        "schema",
        "baseline",
        "rounds",
        "targets",
        "ratios",
        "machine_busy",
        "valid",
        "processes",
        "trace",
        "seed",
        "versions",
        "interrupted",
    ]
    assert (data["schema"], data["baseline"], data["rounds"]) == ("isocost.comparison/1", "a", 3)
    assert list(data["targets"]) == ["a", "b.c"]
    assert data["targets"]["b.c"]["schema"] == "isocost.report/1"
    assert data["targets"]["b.c"]["target"] == {"name": "b.c", "url": "http://b.c"}
    assert list(data["ratios"]) == ["b.c"]
    assert list(data["ratios"]["b.c"]) == list(METRICS)
    assert list(data["ratios"]["b.c"]["goodput"]) == ["ratio", "low", "high", "method", "reason"]
    assert data["ratios"]["b.c"]["ttft_ms.p50"]["method"] == "rounds"
    assert (data["machine_busy"], data["valid"], data["seed"]) == (0.9, False, 7)
    assert data["processes"] == [{"pid": 1, "name": "python", "cpu_fraction": 0.5}]
    assert data["interrupted"] is True
    assert data["trace"]["rate_per_s"] == 3.0
