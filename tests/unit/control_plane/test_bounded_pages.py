"""Whoever connects and whatever it calls itself: metrics and status do not grow with it."""

from __future__ import annotations

import json
import time

from prometheus_client.parser import text_string_to_metric_families

from isocost.metrics import MOST_ENVOYS, OTHER_ENVOYS
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.workers import WorkerCount
from isocost.push.request import Request
from isocost.push.snapshot import Response, TypeResources
from isocost.push.stream import Stream
from isocost.push.type_urls import ORDER, TABLE
from isocost.status import LISTED
from tests.unit.control_plane.test_daemon import A, daemon

CLIENTS = 1000
STATUS_BYTES = 300_000


def hostile_name(number: int) -> str:
    """Long, with what breaks lines and quotes."""
    return f'{number}"}}\n{{x="{"y" * (number % 2) * 500}'


async def series(made: object) -> dict[str, set[tuple[tuple[str, str], ...]]]:
    """The label sets of each metric."""
    page = (await made.metrics_page()).decode()  # type: ignore[attr-defined]
    result: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in result.setdefault(sample.name, set()), "a series comes twice"
            result[sample.name].add(labels)
    return result


async def test_made_up_envoys_and_types_make_no_series_and_no_large_status() -> None:
    made = daemon(None)
    before = await series(made)
    now_s = time.monotonic()
    for number in range(CLIENTS):
        name = hostile_name(number)
        node = NodeObservation(A.id + number, started=1)
        made._observer.apply(Batch(name, number, 1, (node,)), now_s)
        made._observer.apply_workers(name, WorkerCount(1, 2), now_s)
        made._ads._streams.add(refusing(name))
    made._pipeline.tick(now_s + 1.0, 1_790_000_002_000)

    after = await series(made)
    by_envoy = {name for name in after if name.startswith("isocost_envoy_workers")}
    assert all(len(after[name]) <= MOST_ENVOYS + 1 for name in by_envoy)
    grown = {name for name in after if after[name] - before.get(name, set())}
    assert grown == by_envoy
    page = (await made.metrics_page()).decode()
    live = {
        sample.labels["envoy"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "isocost_envoy_workers_live"
    }
    # None is left out of the sum.
    assert (sum(live.values()), live[OTHER_ENVOYS] > CLIENTS - MOST_ENVOYS - 1) == (CLIENTS, True)
    assert f"isocost_xds_subscribers {CLIENTS:.1f}" in page
    assert f'isocost_xds_refusing{{type="Table"}} {CLIENTS:.1f}' in page

    status = made.status()
    assert len(json.dumps(status)) < STATUS_BYTES
    push = status["push"]
    assert isinstance(push, dict)
    assert (push["connected"], push["refusing"], len(push["clients"])) == (CLIENTS, CLIENTS, LISTED)
    assert status["envoys_reporting"] == CLIENTS


async def test_a_client_that_refuses_is_listed_before_those_that_do_not() -> None:
    made = daemon(None)
    for number in range(CLIENTS):
        made._ads._streams.add(Stream(str(number), f"ipv4:192.0.2.1:{number}", 0.0))
    made._ads._streams.add(refusing("the-one"))
    push = made.status()["push"]
    assert isinstance(push, dict)
    assert push["clients"][0]["node_id"] == "the-one"
    assert push["clients"][0]["types"]["Table"]["error"].endswith("no")
    assert (push["connected"], push["refusing"]) == (CLIENTS + 1, 1)


def refusing(name: str) -> Stream:
    """A client that refuses every type with a long text."""
    stream = Stream(name, "ipv4:192.0.2.1:5", 0.0)
    for type_url in ORDER:
        names = () if type_url == ORDER[0] else ("fleet",)
        stream.on_request(Request(type_url, names, node_id=name))
        resources = TypeResources(type_url, "1", {"fleet": b""})
        stream._subscriptions[type_url].sent(Response(resources, ("fleet",)), "nonce")
        stream.on_request(Request(type_url, names, nonce="nonce", error="z" * 1000 + "no"))
    assert stream.status(0.0).types[TABLE].error
    return stream
