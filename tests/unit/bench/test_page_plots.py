"""The plots of the page: what they show, and in which colours."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from isocost.bench.page import palette, plots
from isocost.bench.page.ratio_rows import ratio_rows
from tests.unit.bench import page_sample

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str | None) -> list[str]:
    assert svg is not None
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def filled(svg: str | None, colour: str) -> list[str]:
    """The paths that are filled with a colour."""
    assert svg is not None
    paths = ElementTree.fromstring(svg).iter(f"{SVG}path")
    return [path.attrib["d"] for path in paths if path.get("fill") == colour]


@pytest.fixture(scope="module")
def every_plot() -> list[str | None]:
    report, comparison = page_sample.report(), page_sample.comparison()
    return [
        plots.ttft_cdf(report),
        plots.timeline(report),
        plots.node_share(report),
        plots.heat_map(report),
        plots.heat_map(page_sample.report(control_plane=False)),
        plots.ttft_cdf(page_sample.comparison(duration_s=3, names=tuple("abcdef"))),
        plots.node_balance(comparison),
        plots.ratios(comparison),
    ]


def test_every_colour_has_one_for_the_dark(every_plot: list[str | None]) -> None:
    rules = palette.style_rules()
    colours = {colour for svg in every_plot for colour in re.findall(r"#[0-9a-f]{6}", svg or "")}
    assert len(colours) > 10
    for colour in colours:
        assert f'svg [fill="{colour}"]' in rules
        assert f'svg [stroke="{colour}"]' in rules


def test_every_text_has_a_colour_of_its_own(every_plot: list[str | None]) -> None:
    for svg in every_plot:
        assert svg is not None
        for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
            assert element.get("fill") == palette.INK


def luminance(colour: str) -> float:
    """As WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def dark(colour: str) -> str:
    dark_part = palette.style_rules().partition("@media")[2]
    found = re.search(rf"--plot-{colour[1:]}:(#[0-9a-f]{{6}})", dark_part)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("seen", [lambda colour: colour, dark])
def test_the_heat_colours_go_steadily_away_from_the_paper(seen: Any) -> None:
    """Who sees no hue at all still sees the order."""
    paper = luminance(seen(palette.PAPER))
    distances = [abs(luminance(seen(colour)) - paper) for colour in palette.HEAT]
    assert distances == sorted(distances)
    assert luminance(seen(palette.INK)) != paper


@pytest.mark.parametrize("seen", [lambda colour: colour, dark])
@pytest.mark.parametrize("colour", [palette.INK, palette.MUTED])
def test_text_stands_out_from_the_paper(seen: Any, colour: str) -> None:
    lighter, darker = sorted(
        (luminance(seen(colour)), luminance(seen(palette.PAPER))), reverse=True
    )
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_a_wide_range_of_ttft_is_logarithmic_and_a_narrow_one_is_not() -> None:
    report = {"ttft_cdf": [[10.0, 0.1], [100.0, 0.6], [5000.0, 1.0]]}
    assert {"10", "100", "1,000"} <= set(texts(plots.ttft_cdf(report)))
    report = {"ttft_cdf": [[80.0, 0.1], [100.0, 0.6], [110.0, 1.0]]}
    assert {"0", "20", "40", "100"} <= set(texts(plots.ttft_cdf(report)))


def test_the_cdf_has_one_curve_per_target_with_its_own_dashes() -> None:
    svg = plots.ttft_cdf(page_sample.comparison(names=("a", "b", "_c")))
    assert svg is not None
    words = texts(svg)
    assert [word for word in words if ": p50" in word] == [
        "a: p50 140 ms, p99 1,260 ms",
        "b: p50 196 ms, p99 1,764 ms",
        " _c: p50 252 ms, p99 2,268 ms",
    ]
    assert len(set(re.findall(r'stroke-dasharray="([^"]+)"', svg))) == 2


def test_the_share_of_each_node_stands_beside_what_is_due() -> None:
    report = page_sample.report(nodes=3)
    svg = plots.node_share(report)
    words = texts(svg)
    assert {"h100-1", "h100-2", "h100-3", "share of the requests"} <= set(words)
    assert "share of the weights" in words
    # Three bars and the legend's.
    assert len(filled(svg, palette.BLUE)) == 4
    report["imbalance_basis"] = "equal"
    assert "equal share" in texts(plots.node_share(report))


def test_the_faults_are_shaded_in_every_panel_and_named() -> None:
    report = page_sample.report()
    svg = plots.timeline(report)
    words = texts(svg)
    assert {"slow h100-1", "hang h100-2", "refuse h100-3", "clock_skew h100-4"} <= set(words)
    # A bar each, and a span each behind latency, requests and failures.
    assert len(filled(svg, palette.ORANGE)) == 4 + 3 * 4
    assert not filled(plots.timeline(page_sample.report(faults=False)), palette.ORANGE)


def test_a_fault_without_end_lasts_to_the_end_of_the_run() -> None:
    report = page_sample.report()
    ended = plots.timeline(report)
    report["faults"][-1]["end_s"] = 600.0
    at_the_end = plots.timeline(report)
    report["faults"][-1]["end_s"] = None
    assert plots.timeline(report) == at_the_end != ended


def test_failures_have_a_panel_where_there_are_any() -> None:
    assert "failed/s" in texts(plots.timeline(page_sample.report()))
    report = page_sample.report(faults=False)
    assert "failed/s" not in texts(plots.timeline(report))
    report["series"]["rejected"][7] = 3
    words = texts(plots.timeline(report))
    assert {"failed/s", "rejected"} <= set(words)


def test_a_step_lasts_to_its_end() -> None:
    """Counts are of whole steps: a slope between two would show what never was."""
    report = page_sample.report(duration_s=2, faults=False)
    report["series"]["sent"] = report["series"]["ok"] = [10, 30]
    svg = plots.timeline(report)
    assert svg is not None
    paths = ElementTree.fromstring(svg).iter(f"{SVG}path")
    line = max((p.attrib["d"] for p in paths if p.get("stroke") == palette.GREEN), key=len)
    # Only across and up.
    assert line.count("V") == 1 and "L" not in line


def test_where_no_answer_has_a_first_token_the_end_to_end_time_is_shown() -> None:
    report = page_sample.report()
    assert "TTFT, ms" in texts(plots.timeline(report))
    for name in ("ttft_p50_ms", "ttft_p99_ms"):
        report["series"][name] = [None] * len(report["series"]["t_s"])
    words = texts(plots.timeline(report))
    assert "end to end, ms" in words and "TTFT, ms" not in words
    assert "p50" in words and "p99" not in words


def test_a_step_without_answers_is_a_gap_and_not_zero() -> None:
    def line(values: list[float | None]) -> str:
        report = page_sample.report(duration_s=6, faults=False)
        report["series"]["ttft_p99_ms"] = values
        svg = plots.timeline(report)
        assert svg is not None
        paths = ElementTree.fromstring(svg).iter(f"{SVG}path")
        lines = [p.attrib["d"] for p in paths if p.get("stroke") == palette.VERMILLION]
        return max(lines, key=len)

    assert line([9.0, 8.0, 7.0, 6.0, 8.0, 9.0]).count("M") == 1
    assert line([9.0, 8.0, None, 6.0, 8.0, 9.0]).count("M") == 2


def test_infinite_and_unknown_entropy_have_their_own_look_and_legend() -> None:
    svg = plots.heat_map(page_sample.report())
    words = texts(svg)
    assert {"infinite", "unknown"} <= set(words)
    assert "Entropy of each node over time, highest of each 5 s" in words
    # The cells and the legend's entry.
    assert len(filled(svg, palette.VERMILLION)) == 2
    assert svg is not None
    assert svg.count('fill="url(#heat-map-') == 2


def test_the_heat_map_of_known_entropy_has_neither() -> None:
    words = texts(plots.heat_map(page_sample.report(faults=False)))
    assert not {"infinite", "unknown"} & set(words)


def test_without_entropy_the_heat_map_shows_requests() -> None:
    words = texts(plots.heat_map(page_sample.report(control_plane=False)))
    assert "Requests per second of each node over time, mean of each 5 s" in words


def test_the_balance_has_a_point_per_node_and_target() -> None:
    svg = plots.node_balance(page_sample.comparison(nodes=5))
    assert svg is not None
    assert {f"h100-{number}" for number in range(1, 6)} <= set(texts(svg))
    for colour in palette.LINES[:2]:
        # The legend's too.
        assert len(re.findall(rf'<use [^>]*fill="{colour}"', svg)) == 5 + 1


def test_an_interval_that_holds_one_is_hollow() -> None:
    svg = plots.ratios(page_sample.comparison())
    assert svg is not None
    assert "1.40  (1.34 to 1.46)" in texts(svg)
    points = re.findall(r'<use [^>]*fill="(#\w+)"', svg)
    assert points.count(palette.PAPER) == 1
    assert points.count(palette.BLUE) == 4


@pytest.mark.parametrize(
    ("metric", "figures", "verdict"),
    [
        ("ttft_ms.p99", {"ratio": 0.8, "low": 0.7, "high": 0.9}, "better"),
        ("ttft_ms.p99", {"ratio": 1.2, "low": 1.1, "high": 1.3}, "worse"),
        ("goodput", {"ratio": 0.8, "low": 0.7, "high": 0.9}, "worse"),
        ("goodput", {"ratio": 1.2, "low": 1.1, "high": 1.3}, "better"),
        ("goodput", {"ratio": 1.2, "low": 0.9, "high": 1.3}, "no difference shown"),
        ("goodput", {"ratio": 1.2, "low": None, "high": None}, "no difference shown"),
        ("ttft_ms.p50", {"ratio": 1.2, "low": 1.1, "high": None}, "worse"),
        ("ttft_ms.p50", {"ratio": 1.2, "low": 0.9, "high": None}, "no difference shown"),
        ("ttft_ms.p50", {"ratio": None, "reason": "the target has no value"}, "the target has"),
        ("another", {"ratio": 1.2, "low": 1.1, "high": 1.3}, "higher"),
    ],
)
def test_a_ratio_says_better_or_worse_only_where_its_interval_does(
    metric: str, figures: dict[str, float], verdict: str
) -> None:
    data = {"baseline": "a", "ratios": {"a": {metric: {"ratio": 1.0}}, "b": {metric: figures}}}
    (row,) = ratio_rows(data)
    assert row.verdict.startswith(verdict)


def test_an_interval_without_upper_bound_reaches_the_edge_with_an_arrow() -> None:
    figures = {"ratio": 1.5, "low": 1.2, "high": None}
    svg = plots.ratios({"baseline": "a", "ratios": {"b": {"goodput": figures}}})
    assert svg is not None
    assert "1.50  (1.20 to no bound)" in texts(svg)
    assert len(re.findall(rf'<use [^>]*fill="{palette.BLUE}"', svg)) == 2


@pytest.mark.parametrize("data", [{}, {"nodes": [], "series": {"t_s": []}, "ttft_cdf": []}])
def test_a_plot_of_nothing_is_none(data: dict[str, Any]) -> None:
    for plot in (plots.ttft_cdf, plots.timeline, plots.node_share, plots.heat_map, plots.ratios):
        assert plot(data) is None
    assert plots.node_balance({"schema": "isocost.comparison/1"}) is None


def test_two_plots_of_one_page_share_no_id() -> None:
    report = page_sample.report()
    one, two = plots.heat_map(report, "one"), plots.heat_map(report, "two")
    assert one is not None
    assert two is not None
    ids = re.compile(r'id="([^"]+)"')
    assert ids.findall(one)
    assert not set(ids.findall(one)) & set(ids.findall(two))
