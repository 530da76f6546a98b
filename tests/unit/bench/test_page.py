"""The page of a report: whole, safe with any name, and alike every time."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from isocost.bench.page import render
from tests.unit.bench import page_sample

ROOT = Path(__file__).parents[3]
DASH = "\N{EN DASH}"
HOSTILE = (
    '<script>alert(1)</script>"><img src=x onerror=alert(2)>',
    "$\\frac{1}{0}$",
    "a&b;'\"]]>--><!--",
    "{{ 7 * 7 }}{% include 'x' %}",
    "\N{CJK UNIFIED IDEOGRAPH-4E2D}\N{CJK UNIFIED IDEOGRAPH-6587} \N{ROCKET}",
    "\x00\x07\r\n\ud800\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}",
    "url(#x) javascript:alert(1)",
    "n" * 5000,
    "",
)
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Parsed(HTMLParser):
    """What a browser would find; fails where an element is not closed in its order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text_of: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.text_of.setdefault(self._open[-1], []).append(data)

    def all(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def section_ids(page: str) -> list[str]:
    return [attributes["id"] for tag, attributes in Parsed(page).elements if tag == "section"]


def part(page: str, key: str) -> str:
    """A section's text, from its start to the next section's."""
    return page.partition(f'<section id="{key}"')[2].partition("<section ")[0]


@pytest.fixture(scope="module")
def report_page() -> str:
    return render(page_sample.report())


@pytest.fixture(scope="module")
def comparison_page() -> str:
    return render(page_sample.comparison())


def test_a_report_has_every_section_with_its_plots(report_page: str) -> None:
    assert section_ids(report_page) == [
        "totals",
        "latencies",
        "timeline",
        "faults",
        "phases",
        "kinds",
        "nodes",
        "entropy",
        "failures",
        "gateway",
        "processes",
    ]
    for key in ("latencies", "timeline", "nodes", "entropy"):
        assert part(report_page, key).count("<svg ") == 1, key
    for key in ("totals", "faults", "phases", "kinds", "nodes", "failures", "processes"):
        assert "<table>" in part(report_page, key), key


def test_a_comparison_has_the_targets_side_by_side_and_each_ones_report(
    comparison_page: str,
) -> None:
    ids = section_ids(comparison_page)
    assert ids[:3] == ["ratios", "targets", "target-1"]
    assert {"target-2", "target-1-timeline", "target-2-entropy", "processes"} <= set(ids)
    side_by_side = part(comparison_page, "targets")
    assert side_by_side.count("<svg ") == 2
    assert "isocost: p50 140 ms, p99 1,260 ms" in side_by_side
    assert "round-robin: p50 196 ms, p99 1,764 ms" in side_by_side
    table = part(comparison_page, "ratios")
    assert "1.40" in table
    assert "1.34 to 1.46" in table
    assert "worse" in table
    assert "no difference shown" in table


def test_the_head_names_target_trace_policy_and_figures(report_page: str) -> None:
    head = report_page.partition("<nav")[0]
    for words in ("http://127.0.0.1:10000", "azure_conv", "equal_cost", "140 ms", "97.0 %", "1.31"):
        assert words in head, words


def test_the_figures_are_in_the_tables(report_page: str) -> None:
    assert "TTFT \N{LESS-THAN OR EQUAL TO} 850 ms" in part(report_page, "totals")
    assert "factor 3" in part(report_page, "faults")
    assert "clock_skew" in part(report_page, "phases")
    assert "reset" in part(report_page, "failures")
    assert "+5,000" in part(report_page, "nodes")
    assert "212" in part(report_page, "gateway")


def test_an_invalid_run_warns_before_all_else_with_what_took_the_cpu() -> None:
    data = page_sample.report() | {"valid": False, "machine_busy": 0.93}
    page = render(data)
    lead = page.partition("<nav")[0]
    warning = lead.index('class="warning"')
    assert "This run is not valid" in lead
    assert "93.0 %" in lead
    assert warning < lead.index("isocost fake-node") < lead.index("TTFT p50")
    assert 'class="warning"' not in render(page_sample.report())


@pytest.mark.parametrize("sample", [page_sample.report, page_sample.comparison])
def test_an_interrupted_run_says_so_before_all_else(sample: Callable[..., Any]) -> None:
    data = sample(nodes=2, duration_s=200)
    assert "interrupted" not in render(data).partition("<nav")[0]
    lead = render(data | {"interrupted": True}).partition("<nav")[0]
    assert "This run was interrupted" in lead and 'class="warning"' in lead


def test_what_a_run_did_not_have_is_left_out() -> None:
    data = page_sample.report(nodes=2, duration_s=200, control_plane=False)
    unknown = {"p50": None, "p99": None}
    data["push"] = {"interval_ms": unknown, "age_at_pick_ms": unknown}
    data["filter"] = {"wasm_bytes": None, "envoy_cpu_us_per_request": None}
    page = render(data | {"policy": None})
    assert "gateway" not in section_ids(page)
    assert "<dt>Policy</dt>" not in page
    nodes = part(page, "nodes")
    assert "Oldest sample" not in nodes and "Clock off" not in nodes


def test_a_run_whose_load_was_not_measured_is_neither_valid_nor_warned_of() -> None:
    data = page_sample.report() | {"valid": None, "machine_busy": None, "processes": []}
    page = render(data)
    assert 'class="warning"' not in page
    assert "Valid:" not in page
    assert "not known" in page.partition("<nav")[0]


@pytest.mark.parametrize("schema", ["isocost.report/1", "isocost.comparison/1"])
def test_a_report_of_nothing_gives_a_page_of_dashes(schema: str) -> None:
    page = render({"schema": schema})
    Parsed(page)
    assert DASH in page
    assert "<svg" not in page
    assert "None" not in page
    assert "nan" not in page.lower()


def test_a_run_without_control_plane_shows_requests_and_says_why() -> None:
    page = render(page_sample.report(control_plane=False))
    entropy = part(page, "entropy")
    assert "No control plane was given" in entropy
    assert "Requests per second of each node" in entropy
    assert "Entropy of each node" not in page


def test_a_run_without_faults_says_so(report_page: str) -> None:
    page = render(page_sample.report(faults=False))
    assert "The run ordered no faults." in page
    assert "No request failed." in page
    assert "faults shaded" not in page
    assert "faults shaded" in report_page


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_report_becomes_markup(name: str, report_page: str) -> None:
    assert_no_markup(page_sample.report(nodes=2, duration_s=200), name, report_page)


@pytest.mark.parametrize("name", [HOSTILE[0], "".join(HOSTILE)])
def test_no_name_of_a_comparison_becomes_markup(name: str, comparison_page: str) -> None:
    assert_no_markup(page_sample.comparison(nodes=2, duration_s=200), name, comparison_page)


def assert_no_markup(data: Any, name: str, harmless: str) -> None:
    """A page in which every name is ``name`` has no other elements than a ``harmless`` one."""
    # Other keys than the schema's are names too.
    for report in data.get("targets", {"": data}).values():
        report["failures"] = {name: 3}
        report["kinds"] = {name: report["kinds"]["A"]}
        report["versions"] = {name: "1"}
    if "targets" in data:
        data["targets"] = {f"{name}{key}": item for key, item in data["targets"].items()}
        data["ratios"] = {f"{name}{key}": {name: {"ratio": 1.5}} for key in data["ratios"]}
    parsed = Parsed(render(page_sample.hostile(data, name)))
    assert not parsed.tags() & {"script", "img", "iframe", "object", "link"}
    assert not [key for _, attributes in parsed.elements for key in attributes if key[:2] == "on"]
    assert parsed.tags() <= Parsed(harmless).tags()


def test_names_read_as_they_are() -> None:
    data = page_sample.report(nodes=1)
    data["nodes"][0]["name"] = "<b>$x_1$</b>"
    page = render(data)
    assert "<b>" not in page
    # In the plots' axes and in the table.
    assert page.count("&lt;b&gt;$x_1$&lt;/b&gt;") >= 3


def test_the_page_can_be_written_whatever_the_names(tmp_path: Path) -> None:
    data = json.loads(
        '{"schema": "isocost.report/1", "target": {"name": "\\ud800", "url": "\\u0000"}}'
    )
    (tmp_path / "page.html").write_text(render(data), encoding="utf-8")


@pytest.mark.parametrize("name", ["report_page", "comparison_page"])
def test_the_page_needs_nothing_from_outside(name: str, request: pytest.FixtureRequest) -> None:
    page: str = request.getfixturevalue(name)
    parsed = Parsed(page)
    assert not parsed.tags() & {"script", "link", "img", "iframe", "base"}
    for attribute in ("src", "href", "xlink:href", "data", "action", "poster"):
        for value in parsed.all(attribute):
            assert value.startswith("#"), value
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    # The name of a namespace, and the target's address as text.
    urls = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert {url for url in urls if "127.0.0.1" not in url} == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", ["report_page", "comparison_page"])
def test_the_page_works_under_a_policy_without_inline_styles(
    name: str, request: pytest.FixtureRequest
) -> None:
    page: str = request.getfixturevalue(name)
    assert not Parsed(page).all("style")
    (style,) = re.findall(r"<style[^>]*>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert f"style-src 'sha256-{digest}'" in policy.replace("&#39;", "'")
    assert "default-src 'none'" in policy.replace("&#39;", "'")


@pytest.mark.parametrize("name", ["report_page", "comparison_page"])
def test_ids_are_unique_and_every_reference_has_one(
    name: str, request: pytest.FixtureRequest
) -> None:
    page: str = request.getfixturevalue(name)
    parsed = Parsed(page)
    ids = Counter(parsed.all("id"))
    assert not [one for one, times in ids.items() if times > 1]
    references = {value.removeprefix("#") for value in parsed.all("href")}
    references |= set(re.findall(r"url\(#([^)]+)\)", page))
    for value in parsed.all("aria-labelledby"):
        references |= set(value.split())
    assert references <= set(ids)


def test_every_plot_tells_those_who_do_not_see_it_what_it_shows(comparison_page: str) -> None:
    drawings = re.findall(r"<svg .*?</svg>", comparison_page, re.DOTALL)
    assert len(drawings) == 3 + 2 * 4
    for drawing in drawings:
        assert 'role="img"' in drawing
        assert re.search(r"<title [^>]*>[^<]{10,}</title>", drawing)
        assert re.search(r"<desc [^>]*>[^<]{10,}</desc>", drawing)


def test_the_page_reads_on_a_phone_in_the_dark_and_on_paper(report_page: str) -> None:
    assert '<meta name="viewport" content="width=device-width' in report_page
    assert "@media screen and (prefers-color-scheme: dark)" in report_page
    assert "@media print" in report_page


def test_the_same_data_gives_the_same_bytes(comparison_page: str) -> None:
    assert render(page_sample.comparison()) == comparison_page


def test_a_large_page_stays_below_a_megabyte() -> None:
    page = render(page_sample.comparison(nodes=32, names=("a", "b", "c")))
    assert len(page.encode()) < 1_000_000


def test_a_page_of_a_thousand_nodes_has_all_in_the_table_and_says_what_the_plots_show() -> None:
    page = render(page_sample.report(nodes=1024, duration_s=3, faults=False))
    nodes = part(page, "nodes")
    assert nodes.count("<tr>") == 1 + 1024
    assert "64 of 1024 nodes" in nodes
    assert "64 of 1024 nodes" in part(page, "entropy")


def test_importing_the_page_imports_no_drawing() -> None:
    code = (
        "import sys, isocost.bench.page, isocost.bench.page.plots\n"
        "print({'matplotlib', 'jinja2'} & set(sys.modules))"
    )
    assert run_python(code).strip() == "set()"


def test_no_display_home_or_settings_of_the_user_reach_the_page(
    tmp_path: Path, report_page: str
) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder: nothing can be written here")
    settings = tmp_path / "matplotlibrc"
    settings.write_text("svg.fonttype: path\naxes.linewidth: 9\nxtick.major.size: 20\n")
    code = (
        "import hashlib, sys\n"
        "from isocost.bench.page import render\n"
        "from tests.unit.bench import page_sample\n"
        "page = render(page_sample.report())\n"
        "print(hashlib.sha256(page.encode()).hexdigest(), 'matplotlib.pyplot' in sys.modules)"
    )
    printed = run_python(code, HOME=str(home), MATPLOTLIBRC=str(settings), PYTHONHASHSEED="7")
    assert printed.split() == [hashlib.sha256(report_page.encode()).hexdigest(), "False"]


def run_python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints; it may print no warning, nor have a display."""
    kept = {key: value for key, value in os.environ.items() if key in {"PATH", "TMPDIR"}}
    path = os.pathsep.join((str(ROOT / "control_plane"), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=kept | {"PYTHONPATH": path} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
