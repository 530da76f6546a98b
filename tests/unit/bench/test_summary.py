"""The tables at the end of a run whose answers were not streamed."""

import io
from dataclasses import replace

from rich.console import Console

from isocost.bench.assemble import Measurement, assemble
from isocost.bench.result import RequestResult
from isocost.bench.summary import print_report
from tests.unit.bench.measured import answer


def whole(late_ms: float) -> RequestResult:
    """A whole answer after a second."""
    result = answer(e2e_ms=1000.0, node="n1", kind="k", late_ms=late_ms)
    return replace(result, first_token_s=None, last_token_s=None, chunks=0)


def shown(late_ms: float) -> str:
    text = io.StringIO()
    report = assemble(Measurement(seed=1, results=(whole(late_ms),) * 3, versions={}))
    print_report(Console(file=text, width=200, color_system=None), report)
    return text.getvalue()


def test_what_has_no_first_token_is_a_dash() -> None:
    rows = [line.split() for line in shown(0.0).splitlines()]
    assert ["first", "token", *"-------"] in rows
    assert ["per", "output", "token", *"-------"] in rows
    assert ["whole", "answer", "1,000", "0", *["1,000"] * 5] in rows
    assert ["k", "3", "3", "-", "-", "1,000"] in rows
    assert ["n1", "-", "3", "100.0%", "-", "-", "-"] in rows


def test_a_late_generator_is_told_by_the_whole_answers_time() -> None:
    assert "could not keep up" not in shown(90.0)
    assert "could not keep up" in shown(110.0)
