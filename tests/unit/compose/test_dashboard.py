"""The dashboard and the alerts as files: Grafana and Prometheus can load them, people read them.

What their queries ask for is compared with real exporters in
tests/integration/test_dashboard_metrics.py.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import promql_parser
import pytest
import yaml

from isocost.model import NodeState
from tests.compose.dashboard_queries import COMPOSE, DASHBOARD, panels, queries, substituted

LOADED: dict[str, Any] = json.loads(DASHBOARD.read_text())
PANELS = list(panels(LOADED))
DRAWN = [panel for panel in PANELS if panel["type"] != "row"]
RULES = [
    rule
    for group in yaml.safe_load((COMPOSE / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
WIDTH = 24


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids)) > 20
    for one, other in combinations(PANELS, 2):
        a, b = one["gridPos"], other["gridPos"]
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, (one["title"], other["title"])
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= WIDTH for panel in PANELS)


def test_every_panel_says_what_it_shows_of_what_in_which_unit() -> None:
    titles = [panel["title"] for panel in PANELS]
    assert len(titles) == len(set(titles))
    for panel in DRAWN:
        title = panel["title"]
        assert title and panel["description"], title
        assert panel["fieldConfig"]["defaults"]["unit"], title
        assert panel["targets"], title
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)), title


def test_the_panel_of_the_states_knows_each_of_them() -> None:
    (panel,) = [panel for panel in PANELS if panel["type"] == "state-timeline"]
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    (target,) = panel["targets"]
    states = [state.name.lower() for state in NodeState]
    assert sorted(value["text"] for value in mapping["options"].values()) == sorted(states)
    for number, value in mapping["options"].items():
        assert f'state="{value["text"]}"}}) * {number}' in target["expr"]


def test_everything_asks_the_data_source_that_is_provisioned() -> None:
    folder = COMPOSE / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    provisioned = {"type": "prometheus", "uid": source["uid"]}
    asking = [*DRAWN, *LOADED["templating"]["list"]]
    asking += [target for panel in DRAWN for target in panel["targets"]]
    assert all(item["datasource"] == provisioned for item in asking)
    # Grafana derives the window of its rates from it.
    scraped = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text())["global"]
    assert source["jsonData"]["timeInterval"] == scraped["scrape_interval"] == "5s"


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.panel)
def test_every_query_is_promql(query: Any) -> None:
    promql_parser.parse(substituted(query.expr))


def test_every_alert_has_a_query_a_severity_and_a_text() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        promql_parser.parse(rule["expr"])
        assert rule["labels"]["severity"] in ("warning", "critical"), rule
        assert rule["annotations"]["summary"], rule
        assert rule["for"], rule


def test_prometheus_reads_these_rules() -> None:
    assert yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text())[
        "rule_files"
    ] == ["alerts.yml"]
