"""What the dashboard asks, and which of it a running Prometheus has no answer to."""

from __future__ import annotations

import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

COMPOSE = Path(__file__).parents[2] / "compose"
DASHBOARD = COMPOSE / "grafana" / "dashboards" / "isocost.json"

#: As Grafana fills them in with all racks and nodes chosen; a rate's window is four scrapes of 5 s.
VARIABLES: Mapping[str, str] = MappingProxyType(
    {"rack": ".+", "node": ".+", "__rate_interval": "20s"}
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::\w+)?\})")
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Query:
    """``expr`` as the file has it; ``legend`` names its series in Grafana's way."""

    panel: str
    expr: str
    legend: str


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels, rows and what is folded into them included."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries(file: Path = DASHBOARD) -> list[Query]:
    """Of every panel, in their order."""
    return [
        Query(panel["title"], target["expr"], target["legendFormat"])
        for panel in panels(json.loads(file.read_text()))
        for target in panel.get("targets", ())
    ]


def substituted(text: str, variables: Mapping[str, str] = VARIABLES) -> str:
    """The text with the variables' values; KeyError: one of them is not known."""
    return _VARIABLE.sub(lambda found: variables[found[1] or found[2]], text)


def queries_without_data(prometheus_url: str, file: Path = DASHBOARD) -> list[Query]:
    """The queries that this Prometheus (``http://HOST:PORT``) answers now with no series, or with
    series that all say NaN. OSError: it cannot be reached, or refuses a query.
    """
    return [
        query
        for query in queries(file)
        if not any(map(_drawn, _answer(prometheus_url, substituted(query.expr))))
    ]


def _answer(prometheus_url: str, expr: str) -> list[float]:
    body = urllib.parse.urlencode({"query": expr}).encode()
    url = f"{prometheus_url}/api/v1/query"
    with urllib.request.urlopen(url, data=body, timeout=_TIMEOUT_S) as response:
        data = json.load(response)["data"]
    result = data["result"]
    if data["resultType"] == "scalar":
        return [float(result[1])]
    return [float(series["value"][1]) for series in result]


def _drawn(value: float) -> bool:
    return not math.isnan(value)
