"""The colours of the plots: told apart by the colour-blind, on light and on dark paper.

A plot is drawn in the light colours, as presentation attributes. A rule per colour in the page's
style sheet puts a variable in its place, so that dark mode needs no second plot, and a plot
without the style sheet (a file in the docs, a viewer that drops styles) still reads.
"""

from __future__ import annotations

PAPER = "#ffffff"
INK = "#1b1f24"
MUTED = "#59636e"
GRID = "#dfe3e8"
#: Okabe and Ito's colours, orange and blue first; light enough or dark enough for either paper.
BLUE = "#0072b2"
VERMILLION = "#d55e00"
GREEN = "#009e73"
PURPLE = "#aa4499"
ORANGE = "#e69f00"
SKY = "#4aa5d8"
UNKNOWN = "#8c959f"
LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
#: Low to high: away from the paper.
HEAT = (
    "#eaf3fb",
    "#cfe1f2",
    "#a9cfe5",
    "#7cb7da",
    "#4f9bcb",
    "#2d7dbb",
    "#125ca4",
    "#08306b",
)

_DARK = {
    PAPER: "#0f141a",
    INK: "#e6edf3",
    MUTED: "#9aa4af",
    GRID: "#2b333c",
    BLUE: "#58a6e8",
    VERMILLION: "#f0883e",
    GREEN: "#3fc79a",
    PURPLE: "#d98ccb",
    ORANGE: "#f2bd4b",
    SKY: "#8fd0f5",
    UNKNOWN: "#7d8793",
    **dict(
        zip(
            HEAT,
            (
                "#12283d",
                "#173a58",
                "#1d5078",
                "#2a6a9a",
                "#4687b8",
                "#6fa8d2",
                "#a1c9e6",
                "#dcecf8",
            ),
            strict=True,
        )
    ),
}


def style_rules() -> str:
    """The style sheet's rules that put a variable in each colour's place."""
    variables = {light: f"--plot-{light[1:]}" for light in _DARK}
    light = "".join(f"{name}:{colour};" for colour, name in variables.items())
    dark = "".join(f"{name}:{_DARK[colour]};" for colour, name in variables.items())
    rules = "".join(
        f'svg [{attribute}="{colour}"]{{{attribute}:var({name})}}\n'
        for colour, name in variables.items()
        for attribute in ("fill", "stroke")
    )
    # Paper that is printed on is white whatever the screen is.
    return (
        f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"{rules}"
    )
