"""Numbers and names as the page prints them; unknown is a dash."""

from __future__ import annotations

import math

DASH = "\N{EN DASH}"
#: In plots only; the tables have the whole name.
_LABEL_CHARACTERS = 22


def printable(value: object) -> str:
    """A name or other text from outside, without characters that are invisible, turn the
    direction of writing, or cannot be written as UTF-8; a dash for nothing."""
    if value is None or value == "":
        return DASH
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in str(value)
    )


def label(value: object) -> str:
    """A name short enough for an axis: its beginning and its end, where counts are."""
    name = printable(value)
    if name.startswith("_"):
        # matplotlib leaves such names out of a legend.
        name = f" {name}"
    if len(name) <= _LABEL_CHARACTERS:
        return name
    tail = _LABEL_CHARACTERS // 3
    return f"{name[: _LABEL_CHARACTERS - tail - 1]}…{name[-tail:]}"


def number(value: float | None) -> str:
    """Three digits that matter, thousands with commas."""
    if value is None:
        return DASH
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    # What is left of a difference of floats is not a figure.
    return "< 0.001" if 0 < value < 0.001 else f"{value:.3g}"


def tick(value: float) -> str:
    """A round number without trailing zeros: an axis's, a bound's, a step's."""
    return f"{value:,.10g}"


def quantity(value: float | None, unit: str) -> str:
    """A number with its unit; a dash alone where it is unknown."""
    return DASH if value is None else f"{number(value)} {unit}"


def count(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"


def percent(fraction: float | None) -> str:
    if fraction is None:
        return DASH
    # A little is not nothing.
    return "< 0.1 %" if 0 < fraction < 0.0005 else f"{100 * fraction:.1f} %"


def ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def signed(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return DASH
    return number(value) if value <= 0 else f"+{number(value)}"
