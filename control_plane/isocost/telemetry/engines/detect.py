"""Whose page is this? What is on it tells: nobody configures it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from isocost.errors import TelemetryError
from isocost.model import EngineSample
from isocost.telemetry.engines import sglang, tgi, triton, vllm
from isocost.telemetry.engines.histogram import Latencies, LatencyReader
from isocost.telemetry.engines.page import EnginePage, has_series


class _Engine(NamedTuple):
    prefixes: tuple[str, ...]
    read: Callable[[str], EnginePage]
    latencies: LatencyReader


#: vLLM first: as a backend of Triton it tells more than Triton does.
_ENGINES = (
    _Engine(vllm.PREFIXES, vllm.read_page, LatencyReader(vllm.LATENCIES)),
    _Engine(sglang.PREFIXES, sglang.read_page, LatencyReader(sglang.LATENCIES)),
    _Engine(tgi.PREFIXES, tgi.read_page, LatencyReader(tgi.LATENCIES)),
    _Engine(triton.PREFIXES, triton.read_page, LatencyReader(triton.LATENCIES)),
)


def read_engine_page(page: str) -> EnginePage:
    """TelemetryError: not the page of an engine that is known here.

    An empty page is one whose engine counted nothing yet, as TGI's before its first request.
    """
    if not page.strip():
        return EnginePage(EngineSample())
    engine = _engine_of(page)
    if not page.endswith("\n"):
        # The format ends each line so: of the last number some digits may be missing.
        raise TelemetryError("the page was cut off")
    return engine.read(page)


def read_latencies(page: str) -> Latencies:
    """The histograms of the page, for histogram.recent. TelemetryError as above."""
    return _engine_of(page).latencies.read(page)


def _engine_of(page: str) -> _Engine:
    for engine in _ENGINES:
        if has_series(page, engine.prefixes):
            return engine
    raise TelemetryError("not a metrics page of vLLM, SGLang, TGI or Triton")
