"""Envoy before the control plane, that before any node: an honest 503, then traffic."""

from __future__ import annotations

import time
from typing import Any

import aiohttp

from tests.integration.harness.fleet import MODEL, Fleet, decision_fields
from tests.integration.harness.wait import wait_until

FIRST_ANSWER_S = 2.0
FIRST_TRAFFIC_S = 1.0


async def test_parts_may_start_in_any_order(fleet: Fleet) -> None:
    fleet.plan_nodes(1)
    started_s = time.monotonic()
    fleet.start_gateway()
    status, body = await wait_until(lambda: complete(fleet), "an answer", FIRST_ANSWER_S)
    assert time.monotonic() - started_s <= FIRST_ANSWER_S
    require_unavailable(status, body)

    fleet.start_control_plane()
    fleet.start_agent()
    await wait_until(lambda: connected(fleet), "Envoy and its filter hold their streams")
    require_unavailable(*(await complete(fleet) or (0, {})))

    (node,) = fleet.nodes
    fleet.start_node(node)
    await wait_until(lambda: healthy(fleet, node.url), "the node answers")
    node_s = time.monotonic()
    await wait_until(lambda: served(fleet), "traffic", FIRST_TRAFFIC_S)
    assert time.monotonic() - node_s <= FIRST_TRAFFIC_S
    await wait_until(lambda: picked(fleet), "the filter picks")


def require_unavailable(status: int, body: dict[str, Any]) -> None:
    assert status == 503
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "server_error"
    assert body["error"]["code"] == "service_unavailable"
    assert body["error"]["message"]


async def complete(fleet: Fleet) -> tuple[int, dict[str, Any]] | None:
    """Status and body of one completion; None while nothing listens."""
    request = {"model": MODEL, "prompt": "hello", "max_tokens": 1}
    try:
        async with fleet.session.post(f"{fleet.envoy.url}/v1/completions", json=request) as answer:
            return answer.status, await answer.json()
    except aiohttp.ClientConnectionError:
        return None


async def served(fleet: Fleet) -> bool:
    answer = await complete(fleet)
    return answer is not None and answer[0] == 200


async def picked(fleet: Fleet) -> bool:
    before = len(fleet.envoy.access_log())
    assert await served(fleet)
    entry = (await fleet.envoy.logged(before + 1))[-1]
    return decision_fields(entry)["reason"] == "picked"


async def connected(fleet: Fleet) -> bool:
    """Two ADS streams: Envoy's own and the filter's."""
    try:
        clients = (await fleet.status())["push"]["clients"]
    except aiohttp.ClientError:
        return False
    return len(clients) == 2


async def healthy(fleet: Fleet, url: str) -> bool:
    try:
        async with fleet.session.get(f"{url}/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
