"""How nodes get into Consul: in one call, by heartbeats, again when they were forgotten."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from isocost.config_consul import ConsulRegistrationSettings
from isocost.discovery.consul_client import heartbeat_id
from isocost.discovery.consul_listing import ENGINE_GONE
from isocost.discovery.consul_registration import ConsulRegistration
from isocost.errors import ConfigError
from isocost.model import Model, Node, NodeSample
from tests.integration.harness.wait import wait_until
from tests.unit.discovery.fake_consul import FakeConsul, drop, fake_consul, never, text

N1 = Node("n1", "n1@1000", "192.0.2.1:8000", "r1", "h1", "H100", 8, (Model("m"),))
N2 = Node("n2", "n2@1000", "[2001:db8::2]:8000", "r1", "h1")
REGISTER = "/v1/agent/service/register"
PASS = f"/v1/agent/check/pass/{heartbeat_id('isocost:a1:n1')}"
WARN, FAIL = PASS.replace("pass", "warn"), PASS.replace("pass", "fail")
DEREGISTER = "/v1/agent/service/deregister/isocost:a1:n1"
TTL_S = 2


async def obeyed(_: web.Request) -> web.Response:
    return web.Response()


def sample(node: Node = N1, up: bool = True, silent: bool = False) -> NodeSample:
    return NodeSample(node, engine_up=up, engine_silent=silent)


@asynccontextmanager
async def registering(
    consul: FakeConsul, *samples: NodeSample, **settings: Any
) -> AsyncIterator[ConsulRegistration]:
    registration = ConsulRegistration(
        ConsulRegistrationSettings(address=consul.address, check_ttl_s=TTL_S, **settings),
        "a1",
        [N1, N2],
        random.Random(1),
    )
    registration.samples = samples
    task = asyncio.create_task(registration.run())
    try:
        yield registration
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def paths(consul: FakeConsul) -> list[str]:
    return [request.path for request in consul.asked]


async def until_asked(consul: FakeConsul, count: int) -> None:
    await wait_until(lambda: len(consul.asked) >= count, f"{count} calls", 5.0)


async def test_service_and_check_are_registered_in_one_call_with_what_is_known() -> None:
    async with fake_consul() as consul, registering(consul, sample(N1)):
        consul.then(obeyed, obeyed)
        await until_asked(consul, 2)
        assert paths(consul) == [REGISTER, PASS]
        told = json.loads(consul.bodies[0])
        consul.then(obeyed)
    (check,) = told.pop("checks")
    assert check == {
        "ttl": "2s",
        "CheckID": "isocost:a1:n1:heartbeat",
        "Name": "isocost agent",
        "Status": "passing",
        "DeregisterCriticalServiceAfter": "3600s",
    }
    assert told == {
        "name": "isocost-node",
        "id": "isocost:a1:n1",
        "address": "192.0.2.1",
        "port": 8000,
        "meta": {
            "node": "n1",
            "start_epoch": "1000",
            "rack": "r1",
            "host": "h1",
            "gpu_kind": "H100",
            "gpu_count": "8",
            "min_input_tokens": "0",
            "max_input_tokens": "0",
            "models_0": '[{"name":"m"}]',
        },
    }
    # No query of it deletes checks that others added, such as a maintenance.
    assert dict(consul.asked[0].query) == {}


async def test_a_node_whose_engine_is_gone_is_registered_as_critical() -> None:
    async with fake_consul() as consul, registering(consul, sample(up=False)):
        consul.then(obeyed, obeyed)
        await until_asked(consul, 2)
        assert json.loads(consul.bodies[0])["checks"][0]["Status"] == "critical"
        assert paths(consul)[1] == FAIL and consul.asked[1].query["note"] == ENGINE_GONE
        consul.then(obeyed)


async def test_an_ipv6_address_is_registered_without_brackets() -> None:
    async with fake_consul() as consul, registering(consul, sample(N2)):
        consul.then(obeyed, obeyed)
        await until_asked(consul, 2)
        assert json.loads(consul.bodies[0])["address"] == "2001:db8::2"
        consul.then(obeyed)


async def test_heartbeats_come_well_within_the_ttl_and_always_say_the_same() -> None:
    async with fake_consul() as consul, registering(consul, sample()):
        consul.then(*[obeyed] * 5)
        await until_asked(consul, 5)
        consul.then(obeyed)
    assert paths(consul)[:5] == [REGISTER, *[PASS] * 4]
    beats_s = consul.asked_s[1:5]
    gaps_s = [after_s - before_s for before_s, after_s in itertools.pairwise(beats_s)]
    assert max(gaps_s) < TTL_S * 0.75
    assert {request.query["note"] for request in consul.asked[1:5]} == {"the engine answers"}


async def test_what_changes_is_told_at_once() -> None:
    async with fake_consul() as consul, registering(consul, sample()) as registration:
        consul.then(obeyed, obeyed)
        await until_asked(consul, 2)
        for change, told in ((sample(up=False, silent=True), WARN), (sample(up=False), FAIL)):
            registration.samples = (change,)
            changed_s, before = time.monotonic(), len(consul.asked)
            consul.then(obeyed)
            await until_asked(consul, before + 1)
            assert paths(consul)[-1] == told
            assert time.monotonic() - changed_s < 0.6
        consul.then(obeyed)


async def test_another_instance_of_the_engine_is_registered_anew() -> None:
    async with fake_consul() as consul, registering(consul, sample()) as registration:
        consul.then(*[obeyed] * 4)
        await until_asked(consul, 2)
        registration.samples = (sample(replace(N1, instance_id="n1@2000")),)
        await until_asked(consul, 4)
        assert paths(consul)[2:4] == [REGISTER, PASS]
        assert json.loads(consul.bodies[2])["meta"]["start_epoch"] == "2000"
        consul.then(obeyed)


@pytest.mark.parametrize(
    "refusal",
    [
        text('Unknown check ID "isocost:a1:n1:heartbeat"', 404),
        text('CheckID "isocost:a1:n1:heartbeat" does not have associated TTL', 500),
    ],
)
async def test_a_consul_that_forgot_a_node_has_it_again_with_that_heartbeat(refusal: Any) -> None:
    async with fake_consul() as consul, registering(consul, sample()):
        consul.then(obeyed, obeyed, refusal, obeyed, obeyed)
        await until_asked(consul, 5)
        assert paths(consul)[:5] == [REGISTER, PASS, PASS, REGISTER, PASS]
        # At once: not after a wait that follows errors.
        assert consul.asked_s[4] - consul.asked_s[2] < 0.24
        consul.then(obeyed)


async def test_while_consul_is_away_tries_are_slow_and_then_all_is_told_again() -> None:
    async with fake_consul() as consul, registering(consul, sample()):
        consul.then(*[drop] * 6, obeyed, obeyed)
        await until_asked(consul, 8)
        assert paths(consul)[6:8] == [REGISTER, PASS]
        consul.then(obeyed)
    gaps_s = [after_s - before_s for before_s, after_s in itertools.pairwise(consul.asked_s[:6])]
    assert min(gaps_s) >= 0.24 and max(gaps_s) <= TTL_S / 3 + 0.3


async def test_one_call_that_hangs_ends_in_time_for_the_next_heartbeat() -> None:
    async with fake_consul() as consul, registering(consul, sample()):
        consul.then(obeyed, obeyed, never, obeyed)
        await until_asked(consul, 4)
        assert paths(consul)[2:4] == [PASS, PASS]
        assert consul.asked_s[3] - consul.asked_s[2] < TTL_S * 0.6 + 0.7
        consul.then(obeyed)


async def test_one_node_that_consul_refuses_does_not_keep_the_others_out() -> None:
    async def not_n2(request: web.Request) -> web.Response:
        refused = "n2" in request.path or b"n2" in await request.read()
        return web.Response(status=403 if refused else 200)

    async with fake_consul() as consul, registering(consul, sample(N1), sample(N2)):
        consul.then(*[not_n2] * 60)
        await wait_until(lambda: paths(consul).count(PASS) >= 3, "heartbeats of the other", 8.0)


async def test_a_clean_stop_deregisters() -> None:
    async with fake_consul() as consul:
        async with registering(consul, sample()):
            consul.then(*[obeyed] * 3)
            await until_asked(consul, 2)
        assert paths(consul) == [REGISTER, PASS, DEREGISTER]


async def test_a_stop_does_not_wait_for_a_consul_that_hangs_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fake_consul() as consul:
        async with registering(consul, sample()):
            consul.then(obeyed, obeyed, never)
            await until_asked(consul, 2)
            stop_s = time.monotonic()
        assert paths(consul)[2] == DEREGISTER
        # All of an agent's stop takes 2 s at most.
        assert time.monotonic() - stop_s < 1.4
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "0 of 1 nodes deregistered" in told and "no answer in 1 s" in told


async def test_a_stop_says_why_consul_kept_a_node(caplog: pytest.LogCaptureFixture) -> None:
    async with fake_consul() as consul, registering(consul, sample()):
        consul.then(obeyed, obeyed, text("", 403))
        await until_asked(consul, 2)
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "0 of 1 nodes deregistered" in told and "Denied" in told


async def test_a_node_of_which_nothing_is_known_yet_is_not_registered() -> None:
    async with fake_consul() as consul, registering(consul) as registration:
        registration.samples = (sample(),)
        consul.then(*[obeyed] * 3)
        await until_asked(consul, 2)
        assert paths(consul) == [REGISTER, PASS]


async def test_the_token_and_the_namespace_go_with_each_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret-1")
    async with (
        fake_consul() as consul,
        registering(consul, sample(), token_file=str(file), namespace="team-a"),
    ):
        consul.then(*[obeyed] * 3)
        await until_asked(consul, 2)
        file.write_text("secret-2")
        await until_asked(consul, 3)
        consul.then(obeyed)
    tokens = [request.headers["X-Consul-Token"] for request in consul.asked[:3]]
    assert tokens == ["secret-1", "secret-1", "secret-2"]
    assert {request.query["ns"] for request in consul.asked} == {"team-a"}


def test_a_node_that_consul_cannot_keep_stops_the_start() -> None:
    models = tuple(Model(f"model-{index}", ("alias" * 50,)) for index in range(200))
    with pytest.raises(ConfigError, match=r"nodes\.1\.models: Consul keeps at most"):
        ConsulRegistration(
            ConsulRegistrationSettings(),
            "a1",
            [N1, replace(N2, models=models)],
            random.Random(1),
        )


async def test_a_node_that_is_taken_out_of_the_configuration_is_deregistered() -> None:
    async with fake_consul() as consul, registering(consul, sample(N1), sample(N2)) as registration:
        consul.then(*[obeyed] * 12)
        await until_asked(consul, 4)
        # The samples still have it for a moment.
        registration.follow([N2])
        await wait_until(lambda: DEREGISTER in paths(consul), "it is deregistered", 5.0)
        after = paths(consul).index(DEREGISTER)
        await until_asked(consul, after + 2)
    assert not [path for path in paths(consul)[after + 1 :] if ":n1" in path or path == REGISTER]


async def test_nodes_that_consul_cannot_keep_are_refused_and_the_others_stay() -> None:
    models = tuple(Model(f"model-{index}", ("alias" * 50,)) for index in range(200))
    registration = ConsulRegistration(ConsulRegistrationSettings(), "a1", [N1], random.Random(1))
    with pytest.raises(ConfigError):
        registration.follow([N2, replace(N1, models=models)])
    assert registration._names == {"n1"}


UNKNOWN = [
    text('Unknown service ID "isocost:a1:n1". Ensure that the service ID is passed', 404),
    text('Unknown service "isocost:a1:n1"', 500),
]


@pytest.mark.parametrize("answer", UNKNOWN)
async def test_a_node_that_consul_does_not_know_is_deregistered(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    taken_out = [0]

    async def unknown_n1(request: web.Request) -> web.StreamResponse:
        if request.path != DEREGISTER:
            return web.Response()
        taken_out[0] += 1
        return await answer(request)

    async with fake_consul() as consul, registering(consul, sample(N1), sample(N2)) as registration:
        consul.then(*[unknown_n1] * 60)
        await until_asked(consul, 4)
        registration.follow([N2])
        await wait_until(lambda: taken_out[0], "it is deregistered", 5.0)
        await until_asked(consul, len(consul.asked) + 3)
    assert taken_out[0] == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_node_that_consul_does_not_let_go_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forbidden = [True]

    async def keeps_n1(request: web.Request) -> web.Response:
        return web.Response(status=403 if forbidden[0] and request.path == DEREGISTER else 200)

    async with fake_consul() as consul, registering(consul, sample(N1), sample(N2)) as registration:
        consul.then(*[keeps_n1] * 60)
        await until_asked(consul, 4)
        before = len(consul.asked)
        registration.follow([N2])
        await wait_until(lambda: paths(consul).count(DEREGISTER) >= 3, "tries", 8.0)
        # The other's heartbeats go on at their own pace.
        times_s = [
            at_s
            for path, at_s in zip(paths(consul), consul.asked_s, strict=True)
            if path == PASS.replace("n1", "n2")
        ]
        gaps_s = [after_s - before_s for before_s, after_s in itertools.pairwise(times_s)]
        assert gaps_s and max(gaps_s) < TTL_S * 0.75
        assert REGISTER not in paths(consul)[before:]
        told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
        assert len(told) == 1 and "n1" in told[0] and "Denied" in told[0], told
        forbidden[0] = False
        await wait_until(lambda: not set(registration._told) - {"n2"}, "it is let go", 5.0)
