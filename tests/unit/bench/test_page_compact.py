"""The plots' SVG: smaller than matplotlib's, without inline style, and the same picture."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.bench.page.compact import compact, compact_path

DRAWN = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" height="9pt" viewBox="0 0 9 9"
  xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata/>
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="figure_1">
  <defs><path id="m1" d="M 0 0 L 0 3.5 " style="stroke: #000000"/></defs>
  <use xlink:href="#m1" x="1.23456" y="2" style="fill: #ffffff"/>
  <path d="M 0 9 L 9 9 z" clip-path="url(#p1)" style="fill: url(#h1); stroke-width: 1.5"/>
  <text style="font-size: 10px; font-family: 'DejaVu Sans', serif; text-anchor: end" x="1" y="2"
    transform="rotate(-0 1 2)">a &lt; b</text>
  <text style="font-size: 9px" transform="rotate(-90 1 2)">up</text>
 </g>
 <defs><clipPath id="p1"><rect x="0" y="0" width="1" height="1"/></clipPath></defs>
 <defs><pattern id="h1"><rect width="1" height="1"/></pattern></defs>
</svg>"""


def test_styles_become_attributes_and_ids_get_the_plots_key() -> None:
    svg = compact(DRAWN, key="k", title="A <title>", description="What it shows")
    assert svg == (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" role="img"'
        ' aria-labelledby="k-title k-description" stroke-linejoin="round"'
        " font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\">"
        '<title id="k-title">A &lt;title&gt;</title>'
        '<desc id="k-description">What it shows</desc>'
        '<g><defs><path id="k-m1" d="M0 0V3.5" stroke="#000000" /></defs>'
        '<use href="#k-m1" x="1.23" y="2" fill="#ffffff" />'
        '<path d="M0 9H9z" clip-path="url(#k-p1)" fill="url(#k-h1)" stroke-width="1.5" />'
        '<text font-size="10px" text-anchor="end" x="1" y="2">a &lt; b</text>'
        '<text font-size="9px" transform="rotate(-90 1 2)">up</text></g>'
        '<defs><clipPath id="k-p1"><rect x="0" y="0" width="1" height="1" /></clipPath></defs>'
        '<defs><pattern id="k-h1"><rect width="1" height="1" /></pattern></defs></svg>'
    )


def vertices(path: str) -> list[tuple[str, tuple[float, ...]]]:
    """A path's commands with absolute coordinates; H and V as the lines they are."""
    here = (0.0, 0.0)
    found: list[tuple[str, tuple[float, ...]]] = []
    for letter, arguments in re.findall(r"([MLHVCQz])([^MLHVCQz]*)", path):
        numbers = tuple(float(number) for number in arguments.split())
        if letter == "H":
            numbers = (numbers[0], here[1])
        elif letter == "V":
            numbers = (here[0], numbers[0])
        if numbers:
            here = (numbers[-2], numbers[-1])
        found.append(("L" if letter in "HV" else letter, numbers))
    return found


number = st.floats(-1000, 1000).map(lambda value: f"{value:.6f}".rstrip("0").rstrip("."))
some = st.sampled_from(["1.5", "2", "2.004"]) | number
point = st.tuples(some, some)
segment = st.one_of(
    st.tuples(st.just("L"), point),
    st.tuples(st.just("M"), point),
    st.tuples(st.just("C"), st.tuples(some, some, some, some, some, some)),
)


@settings(deadline=None, derandomize=True)
@given(point, st.lists(segment, max_size=12), st.booleans())
def test_a_compact_path_is_the_same_to_a_hundredth_of_a_point(
    start: tuple[str, ...], segments: list[tuple[str, tuple[str, ...]]], closed: bool
) -> None:
    parts = [("M", start), *segments]
    drawn = " \n".join(f"{command} {' '.join(numbers)}" for command, numbers in parts)
    drawn += "\nz" if closed else ""
    before, after = vertices(drawn), vertices(compact_path(drawn))
    assert [command for command, _ in after] == [command for command, _ in before]
    for (_, was), (_, is_now) in zip(before, after, strict=True):
        assert all(abs(a - b) <= 0.00501 for a, b in zip(was, is_now, strict=True))
    assert len(compact_path(drawn)) <= len(drawn)
