"""Callers with a token are routed by its claims; whether it is true is for Envoy to say."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from isocost.config import FilterSettings
from isocost.envoy.bootstrap import connection_manager
from isocost.model import Model
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Backend
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.fleet import decision_fields
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import COMPLETIONS, post, serving, wait_for_members
from tests.integration.harness.tokens import forged, key_set, signed
from tests.integration.harness.wait import wait_until

EXAMPLE = Path(__file__).parents[2] / "envoy" / "jwt.yaml"
BY_CLAIMS = FilterSettings(model_from="jwt:model,body", user_from="jwt:sub")
BODY = json.dumps({"model": "small", "messages": [{"role": "user", "content": "hello"}]}).encode()


async def keys(_: web.Request) -> web.StreamResponse:
    """The issuer's page of keys."""
    return web.json_response(key_set())


def verifying(data: dict[str, Any], issuer: Backend) -> dict[str, Any]:
    """The bootstrap with the shipped example in it; its issuer speaks no TLS and is in the test."""
    example = yaml.safe_load(EXAMPLE.read_text())
    connection_manager(data)["http_filters"].insert(0, example["http_filter"])
    cluster = example["cluster"]
    del cluster["transport_socket"]
    (locality,) = cluster["load_assignment"]["endpoints"]
    (endpoint,) = locality["lb_endpoints"]
    host, _, port = issuer.address.partition(":")
    address = {"socket_address": {"address": host, "port_value": int(port)}}
    endpoint["endpoint"]["address"] = address
    data["static_resources"]["clusters"].append(cluster)
    return data


@asynccontextmanager
async def gateway(
    start_envoy: StartEnvoy,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    backends: Sequence[Backend],
    issuer: Backend | None,
    settings: FilterSettings = BY_CLAIMS,
) -> AsyncIterator[Envoy]:
    """An Envoy that routes by claims, and with an issuer verifies them; the nodes have received
    nothing.
    """
    async with FleetFeed(ads, [Row(backend) for backend in backends]):
        ads.publish(serving(*backends), filter_settings=settings)
        data = local_bootstrap(ads.port)
        envoy = start_envoy(data if issuer is None else verifying(data, issuer))
        await wait_for_members(envoy, len(backends), len(backends))

        async def picks() -> bool:
            before = len(envoy.access_log())
            code, _ = await post(client, envoy, bearer(signed()))
            entry = (await envoy.logged(before + 1))[-1]
            return code == 200 and decision_fields(entry)["reason"] == "picked"

        await wait_until(picks, "the filter picks")
        for backend in backends:
            backend.received.clear()
        yield envoy


@pytest.fixture
async def nodes(start_backend: StartBackend) -> dict[str, Backend]:
    """One for each of two models."""
    found = {name: await start_backend(name) for name in ("small", "large")}
    for name, backend in found.items():
        backend.traits = {"models": (Model(name),)}
    return found


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


async def test_a_verified_caller_goes_where_the_claim_says(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    nodes: dict[str, Backend],
) -> None:
    issuer = await start_backend("issuer", answer=keys)
    async with gateway(start_envoy, ads, client, list(nodes.values()), issuer) as envoy:
        token = signed(sub="alice", model="large")
        for _ in range(5):
            assert (await post(client, envoy, bearer(token), BODY))[0] == 200
        assert len(nodes["large"].received) == 5
        # The body asks for the small one.
        assert list((await envoy.stats("model_mismatches")).values()) == [5]
        assert not nodes["small"].received
        received = nodes["large"].received[0]
        assert received.headers["authorization"] == f"Bearer {token}"
        assert received.body == BODY
        # A token without the claim leaves the choice to the body.
        assert (await post(client, envoy, bearer(signed(sub="alice")), BODY))[0] == 200
        assert len(nodes["small"].received) == 1
        # A model that nobody has is refused, also if a true token names it.
        unknown = bearer(signed(model="gpt-9"))
        assert (await post(client, envoy, unknown, BODY))[0] == 404


async def test_a_token_that_is_not_true_reaches_no_node(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    nodes: dict[str, Backend],
) -> None:
    issuer = await start_backend("issuer", answer=keys)
    async with gateway(start_envoy, ads, client, list(nodes.values()), issuer) as envoy:
        refused = {
            "forged": bearer(forged(sub="alice", model="large")),
            "out of date": bearer(signed(model="large", exp=int(time.time()) - 3600)),
            "another's": bearer(signed(model="large", iss="https://other.example")),
            "for another": bearer(signed(model="large", aud="mail")),
            "no token": bearer("none"),
            "no header": [],
        }
        for what, headers in refused.items():
            url = envoy.url + COMPLETIONS
            before = len(envoy.access_log())
            async with client.post(url, data=BODY, headers=headers) as response:
                assert response.status in (401, 403), what
                error = (await response.json())["error"]
                assert error["type"] == "invalid_request_error", what
            (entry,) = (await envoy.logged(before + 1))[before:]
            # The filter has not seen it.
            assert entry["decision"] is None, what
        assert not nodes["small"].received + nodes["large"].received


async def test_without_verification_a_claim_routes_and_gains_nothing_else(
    start_envoy: StartEnvoy,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    nodes: dict[str, Backend],
) -> None:
    async with gateway(start_envoy, ads, client, list(nodes.values()), None) as envoy:
        token = forged(sub="alice", model="large")
        assert (await post(client, envoy, bearer(token), BODY))[0] == 200
        (received,) = nodes["large"].received
        # What the engine gets is what the client sent, and nothing that vouches for it.
        assert received.body == BODY
        assert received.headers["authorization"] == f"Bearer {token}"
        ours = {name.lower() for name in received.headers if name.lower().startswith("x-isocost")}
        assert ours == set()
        # What cannot be read says nothing: the body decides.
        for text in ("a.b.c", "." * 100, forged(model=7), forged(model="large")[:60], "x" * 8_000):
            nodes["small"].received.clear()
            assert (await post(client, envoy, bearer(text), BODY))[0] == 200
            assert len(nodes["small"].received) == 1, text


async def test_a_callers_requests_stay_in_one_rack_by_the_subject(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backends = [
        await start_backend(f"{rack}-{number}", rack=rack)
        for rack in ("rack-1", "rack-2", "rack-3")
        # A rack has room for two requests a node above its share: for all of these, in one table.
        for number in range(8)
    ]
    # So many requests between two tables would be spread, whosever they are.
    settings = BY_CLAIMS.model_copy(update={"dispersion": False})
    async with gateway(start_envoy, ads, client, backends, None, settings) as envoy:
        homes = {}
        for caller in range(12):
            before = len(envoy.access_log())
            for number in range(4):
                body = json.dumps({"prompt": f"{caller} asks {number} " * 100}).encode()
                token = bearer(signed(sub=f"caller-{caller}"))
                assert (await post(client, envoy, token, body))[0] == 200
            entries = (await envoy.logged(before + 4))[before:]
            racks = {entry["rack"] for entry in entries}
            assert len(racks) == 1, (caller, racks)
            homes[caller] = racks.pop()
        assert set(homes.values()) == {"rack-1", "rack-2", "rack-3"}
