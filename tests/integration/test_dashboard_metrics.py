"""Everything that the dashboard and the alerts ask for is exported: by the control plane, an agent,
a fake engine, Envoy with the filter, and Consul, each read where prometheus.yml reads it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.compose.dashboard_queries import COMPOSE, DASHBOARD, panels, substituted
from tests.compose.promql_labels import Exported, Labels, NotExportedError, labels_of
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.fleet import Fleet
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until
from tests.integration.test_fake_machine import order_gpu

#: What Prometheus itself adds for each of its targets and alerts.
TARGETS_OWN = "up"
ALERTS = {"ALERTS": {"alertname", "alertstate", "severity"}}
#: An agent shows latencies by its second look at the engine's histograms, 5 s later.
ALL_THERE_S = 60.0


async def test_every_query_fits_what_is_exported(
    fleet: Fleet, consul_server: ConsulServer, client: aiohttp.ClientSession
) -> None:
    consul_server.settings = {"telemetry": {"prometheus_retention_time": "60s"}}
    await consul_server.start()
    fleet.consul = consul_server.http
    fleet.agent_http = f"127.0.0.1:{free_port()}"
    await fleet.start(2)
    # A series that exists only once there was an Xid; 31 is the application's fault.
    await order_gpu(fleet, fleet.nodes[0], {"xids": "31"})
    targets = {
        "control-plane": fleet.http,
        "agent": f"http://{fleet.agent_http}",
        "engine": fleet.nodes[0].url,
        "envoy": fleet.envoy.admin_url,
        "consul": consul_server.http,
    }
    found: list[str] = []

    async def nothing_is_missing() -> bool:
        await fleet.complete(20, max_tokens=8)
        exported = await everything_exported(client, targets)
        found[:] = [*dashboard_problems(exported), *alert_problems(exported)]
        return not found

    try:
        await wait_until(nothing_is_missing, "all series are there", ALL_THERE_S)
    except AssertionError as error:
        raise AssertionError("\n".join(found)) from error


async def everything_exported(
    client: aiohttp.ClientSession, targets: Mapping[str, str]
) -> dict[str, Set[str]]:
    """By metric its labels in Prometheus, of every job of prometheus.yml but Prometheus itself."""
    exported: defaultdict[str, set[str]] = defaultdict(set, ALERTS)
    jobs = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert {job["job_name"] for job in jobs} == {*targets, "prometheus"}
    for job in jobs:
        added = {"job", "instance"}.union(
            *(each.get("labels", {}) for each in job["static_configs"])
        )
        exported[TARGETS_OWN] |= added
        if job["job_name"] not in targets:
            continue
        url = targets[job["job_name"]] + job.get("metrics_path", "/metrics")
        async with client.get(url, params=list_of(job.get("params", {}))) as response:
            page = await response.text()
            assert response.status == 200, (url, page)
            # Prometheus 3 reads no page that does not say what it is.
            assert response.content_type == "text/plain", url
        for name, labels in series_of(page):
            exported[name] |= labels | added
    return dict(exported)


def series_of(page: str) -> Iterator[tuple[str, Set[str]]]:
    """Names and labels as they are written: the parser would add _total to Envoy's counters."""
    untyped = "".join(line for line in page.splitlines(keepends=True) if line[0] != "#")
    for family in text_string_to_metric_families(untyped):
        for sample in family.samples:
            yield sample.name, sample.labels.keys()


def list_of(params: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in params.items() for value in values]


def dashboard_problems(exported: Exported) -> Iterator[str]:
    """Queries that do not fit; legends, columns and variables of labels that are not there."""
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in panels(dashboard):
        columns = {"Time"}
        for target in panel.get("targets", ()):
            labels, problem = checked(substituted(target["expr"]), exported)
            columns |= {*(labels or ()), f"Value #{target['refId']}"}
            named = set(re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]))
            if problem is None and named - set(labels or ()):
                problem = f"no label for the legend {target['legendFormat']}"
            if problem is not None:
                yield f"{panel['title']}: {problem}"
        yield from column_problems(panel, columns)
    for variable in dashboard["templating"]["list"]:
        query = variable["query"]["query"]
        selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
        labels, problem = checked(substituted(selector), exported)
        if problem is not None or label not in (labels or ()):
            yield f"variable {variable['name']}: {problem or f'no label {label}'}"


def column_problems(panel: Mapping[str, Any], columns: Set[str]) -> Iterator[str]:
    """Of a table whose columns are renamed and left out by name."""
    for step in panel.get("transformations", ()):
        options = step["options"]
        for key in ("excludeByName", "renameByName", "indexByName"):
            gone = options.get(key, {}).keys() - columns
            if gone:
                yield f"{panel['title']}: no columns {sorted(gone)} for {key}"


def alert_problems(exported: Exported) -> Iterator[str]:
    """Rules that do not fit, and texts that name labels that are not there."""
    for group in yaml.safe_load((COMPOSE / "prometheus" / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            labels, problem = checked(rule["expr"], exported)
            named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
            if problem is None and named - set(labels or ()):
                problem = f"no label for its text: {named - set(labels or ())}"
            if problem is not None:
                yield f"{rule['alert']}: {problem}"


def checked(text: str, exported: Exported) -> tuple[Labels, str | None]:
    try:
        return labels_of(text, exported), None
    except NotExportedError as error:
        return None, str(error)
