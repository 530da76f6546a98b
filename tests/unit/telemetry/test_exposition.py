"""The exposition reader: what it must survive, and that it agrees with Prometheus's own parser."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isocost.telemetry.engines.exposition import PageReader

PAGES = Path(__file__).parents[2] / "data"


def read(line: str, *names: str) -> list[tuple[dict[str, str], float]]:
    found = PageReader(names or ("m",)).read(line)
    return [(dict(point.labels), point.value) for points in found.values() for point in points]


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("m 1", {}, 1.0),
        ("m 1.5e+03", {}, 1500.0),
        ("m\t-2 ", {}, -2.0),
        ("m 3\r", {}, 3.0),
        ("m{} 4", {}, 4.0),
        ('m{a="b"} 5', {"a": "b"}, 5.0),
        ('m{a="b",} 5', {"a": "b"}, 5.0),
        ('m { a = "b" , c="" } 6', {"a": "b", "c": ""}, 6.0),
        ('m{model_name="My Model v2"} 7 1700000000000', {"model_name": "My Model v2"}, 7.0),
        ('m{a="x} 9",b="y"} 8', {"a": "x} 9", "b": "y"}, 8.0),
        (r'm{a="q\"b\\n\n"} 9', {"a": 'q"b\\n\n'}, 9.0),
        ('m{a="\u0085\u2028"} 10', {"a": "\u0085\u2028"}, 10.0),
        ("m +Inf", {}, math.inf),
        ('m 11 # {trace_id="a b"} 0.5 1700000000.1', {}, 11.0),
    ],
)
def test_a_sample_is_read_whatever_its_form(
    line: str, labels: dict[str, str], value: float
) -> None:
    assert read(line) == [(labels, value)]


def test_not_a_number_is_a_value_of_its_own() -> None:
    ((_, value),) = read("m NaN")
    assert math.isnan(value)


@pytest.mark.parametrize(
    "line",
    [
        "m",
        "m ",
        "m one",
        'm{a="b} 1',
        "m{a=b} 1",
        'm{"a"} 1',
        "m 1 2 3",
        "# m 1",
        " m 1",
        "m_total 1",
        "mm 1",
        'm{a="' + "\\" * 100_001,
        "m{" + "a," * 50_000,
    ],
)
def test_a_line_that_is_no_such_sample_is_left_out_and_costs_nothing(line: str) -> None:
    start_s = time.process_time()
    assert read(line + "\nm 5") == [({}, 5.0)]
    assert time.process_time() - start_s < 1.0


def test_only_exact_names_count() -> None:
    page = 'n_waiting 3\nn_waiting_by_reason{reason="capacity"} 2\nn_waiting_created 1e9'
    assert read(page, "n_waiting") == [({}, 3.0)]


@pytest.mark.parametrize(
    # Pages whose counters end in _total: the full parser renames others.
    "file",
    [
        "metrics-vllm/vllm-0.4.3-opt-125m.txt",
        "metrics-vllm/vllm-v1-qwen3-0.6b.txt",
        "metrics-sglang/sglang-idle-llama31-8b.txt",
        "metrics-sglang/sglang-saturated-llama31-8b.txt",
    ],
)
def test_it_agrees_with_the_full_parser_on_every_series_of_a_real_page(file: str) -> None:
    page = (PAGES / file).read_text()
    expected = [
        (sample.name, dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]
    reader = PageReader({name for name, _, _ in expected})
    got = [
        (name, dict(point.labels), point.value)
        for name, points in reader.read(page).items()
        for point in points
    ]
    assert len(expected) > 5
    assert sorted(got, key=str) == sorted(expected, key=str)
