"""From a report's JSON to the page's text."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isocost.bench.page.palette import style_rules
from isocost.bench.page.read import is_comparison

_FOLDER = Path(__file__).parent


def render(data: dict[str, Any]) -> str:
    """The HTML page of an ``isocost.report/1`` or an ``isocost.comparison/1``.

    The same data gives the same bytes. The packages of the extra ``bench`` are imported here and
    not before: most commands draw nothing.
    """
    with _quiet_matplotlib():
        return _render(data)


def _render(data: dict[str, Any]) -> str:
    import jinja2
    import markupsafe

    from isocost.bench.page.comparison import comparison_page
    from isocost.bench.page.single import report_page

    page = comparison_page(data) if is_comparison(data) else report_page(data)
    style = (_FOLDER / "page.css").read_text(encoding="utf-8") + style_rules()
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((_FOLDER / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        page=page,
        style=markupsafe.Markup(style),
        # Of what is inline the policy allows this style sheet only.
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii"),
        drawing=markupsafe.Markup,
    )


@contextmanager
def _quiet_matplotlib() -> Iterator[None]:
    """Where the home cannot be written matplotlib uses a temporary folder, and tells everyone."""
    logger = logging.getLogger("matplotlib")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
