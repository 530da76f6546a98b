"""Envoy's own choice, where the filter gives none, obeys the nodes' states."""

from __future__ import annotations

import json

import aiohttp
import pytest

from isocost.model import NodeState
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.endpoints import NodeEndpoint
from tests.integration.harness.envoy import local_bootstrap
from tests.integration.harness.filters import without_filter
from tests.integration.harness.gateway import post, serving, wait_for_members

_OUT_OF_SERVICE = [NodeState.DRAINING, NodeState.EJECTED, NodeState.LOST]


@pytest.mark.parametrize("state", _OUT_OF_SERVICE)
async def test_a_node_out_of_service_gets_nothing_from_the_fallback(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    state: NodeState,
) -> None:
    out, good = await start_backend("out", rack="rack-1"), await start_backend("good", "rack-2")
    ads.publish([NodeEndpoint(out.node, state, weight=1000), *serving(good)])
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await wait_for_members(envoy, total=2, healthy=1)
    for _ in range(20):
        assert (await post(client, envoy))[0] == 200
    assert not out.received


async def test_with_every_node_out_of_service_the_answer_is_503_and_then_recovers(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(3)]
    states = zip(backends, _OUT_OF_SERVICE, strict=True)
    ads.publish([NodeEndpoint(backend.node, state) for backend, state in states])
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await wait_for_members(envoy, total=3, healthy=0)
    status, body = await post(client, envoy)
    assert status == 503
    error = json.loads(body)["error"]
    assert error["message"] == "No node can take the request now. Try again shortly."
    assert not any(backend.received for backend in backends)
    ads.publish_endpoints(serving(*backends))
    await wait_for_members(envoy, total=3, healthy=3)
    assert (await post(client, envoy))[0] == 200


async def test_the_fallback_follows_the_weights(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    light, heavy = await start_backend("light"), await start_backend("heavy", rack="rack-2")
    ads.publish(
        [
            NodeEndpoint(light.node, NodeState.SERVING, weight=1),
            NodeEndpoint(heavy.node, NodeState.SERVING, weight=9),
        ]
    )
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await wait_for_members(envoy, total=2, healthy=2)
    for _ in range(100):
        assert (await post(client, envoy))[0] == 200
    # Weighted round robin over one request at a time: 10 and 90, whatever the start.
    assert len(light.received) == pytest.approx(10, abs=2)
