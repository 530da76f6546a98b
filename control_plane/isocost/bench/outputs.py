"""The files of a run: found to be writable before it, written after it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from isocost.errors import StartError


def require_writable(option: str, path: Path) -> None:
    """StartError where ``path`` cannot be written; better before a long run than after it."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StartError(f"{option} {path}: there is no such directory")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise StartError(f"{option} {path}: cannot be written")


def require_drawing() -> None:
    """StartError without what a page is drawn with."""
    if any(find_spec(package) is None for package in ("matplotlib", "jinja2")):
        raise StartError("--html needs matplotlib and Jinja2: pip install 'isocost[bench]'")


def write_text(option: str, path: Path, text: str) -> None:
    """StartError where that is not possible."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StartError(f"{option} {path}: {error}") from error
