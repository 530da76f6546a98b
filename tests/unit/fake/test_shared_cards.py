"""Two models on the same cards: each costs what it costs, and both wait for each other."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isocost.errors import ConfigError
from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from isocost.fake.sequence import Prompt, coarse_marks
from isocost.fake.settings import METRICS
from isocost.fake.shared_cards import SharedCards
from isocost.fake.speeds import Speed
from isocost.telemetry.engines.detect import read_engine_page
from tests.unit.fake.node_client import running

#: 100 ms in the frontend, then 10 ms or 50 ms a step.
SMALL = Speed(0.1, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0)
LARGE = Speed(0.1, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0)
BOTH = Hardware("H100", 4, model_named("qwen2.5-7b"), (model_named("qwen2.5-72b"),))


def ends(answers: list[tuple[int, float, int]]) -> tuple[list[float], SharedCards]:
    """When answers of (engine, sent at, tokens) end, in the order in which they were sent."""
    engines = [Engine(speed, 4096, 8) for speed in (SMALL, LARGE)]
    cards = SharedCards(engines)
    found = {}
    sent = []
    for engine, at_s, tokens in answers:
        for _, progress in cards.advance(at_s):
            found[progress.sequence] = progress.at_s
        sent.append(engines[engine].submit(at_s, Prompt(16), coarse_marks(tokens, 2)))
    for _, progress in cards.advance(1000.0):
        found[progress.sequence] = progress.at_s
    return [found[sequence] for sequence in sent], cards


def test_alone_each_model_has_the_cards_for_itself() -> None:
    found, cards = ends([(0, 0.0, 100), (1, 10.0, 100)])
    assert found == pytest.approx([1.1, 15.1])
    assert cards.busy_s(1000.0) == pytest.approx(6.0)


def test_together_both_take_twice_as_long_as_long_as_both_work() -> None:
    # From 0.1 on both; the small one needs 1 s of the cards and ends at 2.1. The large one has had
    # 1 s of its 5 by then.
    found, cards = ends([(0, 0.0, 100), (1, 0.0, 100)])
    assert found == pytest.approx([2.1, 6.1])
    assert cards.busy_s(1000.0) == pytest.approx(6.0)


def test_a_model_that_comes_later_slows_the_step_that_is_under_way() -> None:
    # Alone until 2.12, in the middle of a step; then the small one's 10 steps take twice as long.
    found, _ = ends([(1, 0.0, 100), (0, 2.02, 10)])
    assert found[1] == pytest.approx(2.12 + 0.2)
    assert found[0] == pytest.approx(0.1 + 5.0 + 0.1)


def test_looking_at_the_engines_changes_nothing() -> None:
    asked = [(1, 0.0, 100), (0, 0.033, 30), (0, 0.5, 70), (1, 0.9, 10), (0, 7.0, 5)]
    plain, _ = ends(asked)
    engines = [Engine(speed, 4096, 8) for speed in (SMALL, LARGE)]
    cards = SharedCards(engines)
    found, sent, left = {}, [], list(asked)
    for tick in range(1000):
        now_s = tick * 0.0137
        while left and left[0][1] <= now_s:
            engine, at_s, tokens = left.pop(0)
            for _, progress in cards.advance(at_s):
                found[progress.sequence] = progress.at_s
            sent.append(engines[engine].submit(at_s, Prompt(16), coarse_marks(tokens, 2)))
        for _, progress in cards.advance(now_s):
            found[progress.sequence] = progress.at_s
    assert [found[sequence] for sequence in sent] == pytest.approx(plain)


def test_a_slowed_or_held_node_holds_both_up() -> None:
    engines = [Engine(speed, 4096, 8) for speed in (SMALL, LARGE)]
    cards = SharedCards(engines)
    for engine in engines:
        engine.submit(0.0, Prompt(16), coarse_marks(100, 2))
    cards.advance(0.1)
    cards.slow(0.1, 3.0)
    cards.advance(1.0)
    cards.hold(1.0, True)
    assert not cards.advance(50.0)
    cards.hold(50.0, False)
    done = [progress.at_s for _, progress in cards.advance(1000.0) if progress.finished]
    assert done == pytest.approx([0.1 + 6.0 + 49.0, 0.1 + 18.0 + 49.0])


def test_each_engine_has_its_part_of_what_the_weights_leave() -> None:
    small, large = BOTH.engines
    assert (small.model.name, large.model.name) == ("qwen2.5-7b", "qwen2.5-72b")
    assert small.kv_pool_bytes == pytest.approx(large.kv_pool_bytes, rel=1e-4)
    alone = Hardware("H100", 4, large.model)
    activations = 4 * 3e9
    both_bytes = small.kv_pool_bytes + large.kv_pool_bytes
    assert alone.kv_pool_bytes - both_bytes == pytest.approx(
        small.model.weight_bytes + activations, rel=1e-3
    )
    assert small.speed == Hardware("H100", 4, small.model).speed


def test_models_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"145 GB, those of qwen2.5-7b 15 GB and .*fits 4 x H100"):
        Hardware("H100", 2, model_named("qwen2.5-72b"), (model_named("qwen2.5-7b"),))


@pytest.mark.parametrize("metrics", METRICS)
async def test_a_node_with_two_models_serves_both_and_tells_of_each(metrics: str) -> None:
    async with running(
        hardware=BOTH, served_model_name="small", served_beside=("large",), metrics=metrics
    ) as node:
        for model in ("small", "large", "large"):
            body = {"model": model, "prompt": "hello", "max_tokens": 2}
            status, answer = await node.post("/v1/completions", body)
            assert (status, answer["model"]) == (200, model)
        unnamed = {"prompt": "hello", "max_tokens": 2}
        assert (await node.post("/v1/completions", unnamed))[1]["model"] == "small"
        assert (await node.post("/v1/completions", {**unnamed, "model": "other"}))[0] == 404
        listed = json.loads((await node.get("/v1/models"))[1])["data"]
        assert [(item["id"], item["root"]) for item in listed] == [
            ("small", "qwen2.5-7b"),
            ("large", "qwen2.5-72b"),
        ]
        _, text = await node.get("/metrics")
        families = list(text_string_to_metric_families(text))
        assert len({family.name for family in families}) == len(families)
        done = {
            sample.labels["model_name"]: sample.value
            for family in families
            for sample in family.samples
            if sample.name.endswith(":generation_tokens_total")
        }
        assert done == {"small": 4.0, "large": 4.0}
        page = read_engine_page(text)
        assert page.sample.generation_tokens_total.value == 8.0
        if metrics == "vllm":
            small, large = (hardware.kv_pool_tokens for hardware in BOTH.engines)
            assert page.sample.kv_pool_tokens.value == small + large
            told = [(name, engine.kv_pool_tokens.value) for name, engine in page.by_model]
            assert told == [("large", large), ("small", small)]
