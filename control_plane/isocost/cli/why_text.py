"""Why a node has its numbers, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from isocost.cli.columns import aligned
from isocost.output import printable

_TITLES = ("TERM", "VALUE", "STATE", "AGE_S", "USED", "CONTRIBUTION")
#: By number: what it is, and how its terms make it.
_PARTS = {
    "weight": ("weight", "of the best node's; the product of"),
    "entropy": ("entropy", "the sum of"),
    "share": ("share", "of the best node's traffic; the product of"),
    "predicted_s": ("predicted time", "s for the mean request; the sum of"),
}


def why_text(answer: Mapping[str, Any]) -> str:
    lines = [f"{answer['name']}: {answer['state']} ({answer['reason']}), policy {answer['policy']}"]
    if answer["guards"]:
        lines.append(f"doubted by: {', '.join(answer['guards'])}")
    if answer["late_ms"] is not None:
        late, limit = answer["late_ms"], _cell(answer["late_limit_ms"])
        how = "later" if late >= 0.0 else "earlier"
        lines.append(
            f"first tokens {_cell(abs(late))} ms {how} than load explains and is usual; "
            f"limit {limit} ms"
        )
    elif "jitter" in answer["guards"]:
        lines.append("first tokens: too few lately to tell whether they are late")
    lines += _tables(answer, ["entropy"] if answer["by_model"] else _PARTS)
    for of_model in answer["by_model"]:
        title = f"model {of_model['model']}"
        lines += ["", title, *_tables(of_model, [key for key in _PARTS if key in of_model])]
    return printable("\n".join(lines))


def _tables(of: Mapping[str, Any], parts: Iterable[str]) -> Iterator[str]:
    for key in parts:
        (title, how), part = _PARTS[key], of[key]
        rows = [_TITLES, *(_row(term) for term in part["terms"])]
        yield ""
        yield f"{title} {_cell(part['value'])} {how}"
        yield from ("  " + row for row in aligned(rows))


def _row(term: Mapping[str, Any]) -> list[str]:
    keys = ("value", "state", "age_s", "used", "contribution")
    return [str(term["term"]), *(_cell(term[key]) for key in keys)]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
