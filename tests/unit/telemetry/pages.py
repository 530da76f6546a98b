"""The recorded pages of tests/data."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parents[2] / "data"


def recorded(folder: str, file: str) -> str:
    return (DATA / f"metrics-{folder}" / file).read_text()
