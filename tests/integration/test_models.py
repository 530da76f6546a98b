"""A request goes to the nodes that serve its model and have room for it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from isocost.config import FilterSettings
from isocost.model import Model
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Backend, status
from tests.integration.harness.connection import Connection
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.fleet import MODEL, decision_fields
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import COMPLETIONS, post
from tests.integration.harness.picking import picking_envoy
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

SMALL = Model("small-7b", aliases=("small",), adapters=("small-french",))
LARGE = Model("large-72b", aliases=("large", "default"))
REQUESTS = 12
UNKNOWN, AT_ONCE = 1_000, 50
#: 300 KB of messages: more than the filter reads of a body.
LONG_WORDS = 60_000

Running = Callable[[Sequence[Row]], Any]


@pytest.fixture(params=["equal_cost", "min_entropy", "weighted_random"])
def running(
    request: pytest.FixtureRequest,
    start_envoy: StartEnvoy,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> Running:
    """``async with running(rows) as envoy``: it picks among the rows by one of the policies."""

    @asynccontextmanager
    async def run(rows: Sequence[Row]) -> AsyncIterator[Envoy]:
        async with FleetFeed(ads, rows):
            settings = FilterSettings(policy=request.param)
            backends = [row.backend for row in rows]
            yield await picking_envoy(start_envoy, ads, client, backends, settings)

    return run


@pytest.fixture
def start_node(start_backend: StartBackend) -> Callable[..., Awaitable[Backend]]:
    """``await start_node("node-1", models=(SMALL,))``"""

    async def start(name: str, **traits: Any) -> Backend:
        backend = await start_backend(name)
        backend.traits = traits
        return backend

    return start


StartNode = Callable[..., Awaitable[Backend]]


Asks = Callable[[int], bytes]


def asks(model: str | None = None, words: int = 1, **more: Any) -> Asks:
    """Chat requests by number; a word is a token, more or less. No two begin alike: those that do
    stay where their beginning is cached.
    """
    named = {} if model is None else {"model": model}

    def body(number: int) -> bytes:
        message = {"role": "user", "content": f"{number} " + "word " * words}
        return json.dumps({**named, "messages": [message], **more}).encode()

    return body


async def ask(
    client: aiohttp.ClientSession,
    envoy: Envoy,
    body: Asks,
    headers: Sequence[tuple[str, str]] = (),
    count: int = REQUESTS,
) -> Counter[str]:
    """How many of the requests each node answered."""
    before = len(envoy.access_log())
    for number in range(count):
        assert (await post(client, envoy, headers, body(number)))[0] == 200
    entries = (await envoy.logged(before + count))[before:]
    assert {decision_fields(entry)["reason"] for entry in entries} == {"picked"}
    return Counter(entry["node"] for entry in entries)


async def test_a_model_its_aliases_and_its_adapters_go_to_the_nodes_that_have_them(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    rows = [
        Row(await start_node("small-1", models=(SMALL,))),
        Row(await start_node("small-2", models=(Model("small-7b"),))),
        Row(await start_node("large-1", models=(LARGE,))),
        Row(await start_node("both-1", models=(SMALL, LARGE))),
    ]
    where = {
        "small-7b": {"small-1", "small-2", "both-1"},
        "small": {"small-1", "both-1"},
        "small-french": {"small-1", "both-1"},
        "large-72b": {"large-1", "both-1"},
        "large": {"large-1", "both-1"},
        "default": {"large-1", "both-1"},
    }
    async with running(rows) as envoy:
        for model, nodes in where.items():
            assert set(await ask(client, envoy, asks(model), count=40)) == nodes, model
        # Whoever names no model takes any.
        assert len(await ask(client, envoy, asks(), count=60)) == 4


async def test_a_header_names_the_model_before_the_body_does(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    rows = [
        Row(await start_node("small-1", models=(SMALL,))),
        Row(await start_node("large-1", models=(LARGE,))),
    ]
    async with running(rows) as envoy:
        header = [("x-isocost-model", "large")]
        body = asks("small-7b")
        assert await ask(client, envoy, body, header) == {"large-1": REQUESTS}
        assert await ask(client, envoy, body, [("X-Isocost-Model", "")]) == {"small-1": REQUESTS}
        # What the engine reads is the client's.
        assert {item.body for row in rows for item in row.backend.received} == {
            body(number) for number in range(REQUESTS)
        }


async def test_a_model_behind_more_than_is_read_of_a_body_is_named_by_the_header(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    rows = [
        Row(await start_node("small-1", models=(SMALL,))),
        Row(await start_node("large-1", models=(LARGE,))),
    ]

    def named_last(number: int) -> bytes:
        return asks(words=LONG_WORDS)(number)[:-1] + b', "model": "large"}'

    assert json.loads(named_last(0))["model"] == "large"
    assert len(named_last(0)) > FilterSettings().profile_limit_bytes
    async with running(rows) as envoy:
        named_first = asks("large", LONG_WORDS)
        assert await ask(client, envoy, named_first) == {"large-1": REQUESTS}
        header = [("x-isocost-model", "large")]
        assert await ask(client, envoy, named_last, header) == {"large-1": REQUESTS}
        # Without it such a request names no model.
        assert set(await ask(client, envoy, named_last, count=40)) == {"small-1", "large-1"}


async def test_a_model_that_no_node_has_is_answered_as_openai_does(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    rows = [
        Row(await start_node("small-1", models=(SMALL,))),
        Row(await start_node("large-1", models=(LARGE,))),
    ]
    async with running(rows) as envoy:
        for name in ("gpt-9", 'a "quoted" \\ name', "m" * 300, "\u6f22\u5b57"):
            known = len(name) <= 256
            before = len(envoy.access_log())
            url = envoy.url + COMPLETIONS
            # Also behind a prompt of several buffers, which the client has sent by then.
            body = json.dumps({"messages": [{"content": "word " * 40_000}], "model": name}).encode()
            async with client.post(url, data=body) as response:
                # A name that is longer than any is none.
                assert response.status == (404 if known else 200)
                text = await response.read()
                content_type = response.headers["content-type"]
            (entry,) = (await envoy.logged(before + 1))[before:]
            if not known:
                continue
            assert content_type == "application/json"
            error = json.loads(text)["error"]
            message = f"The model '{name}' does not exist. Served here: large-72b, small-7b"
            assert error == {
                "message": message,
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }
            assert decision_fields(entry)["reason"] == "unknown_model"
            assert entry["details"] == "isocost_unknown_model"
            assert entry["node"] is None
    assert sum(len(row.backend.received) for row in rows) == 1


async def test_a_thousand_requests_for_a_model_that_no_node_has_count_nowhere(
    stand_in_fleet: StandInFleet, start_node: StartNode
) -> None:
    """Half of them are answered at their headers and half at their bodies' ends."""
    fleet = stand_in_fleet
    backends = [await start_node(f"node-{number}", models=(Model(MODEL),)) for number in (1, 2)]
    async with fleet.running(backends):
        await wait_until(lambda: counts_what_succeeded(fleet), "the start is counted")
        vms = await fleet.envoy.stats(r"^wasm\.")
        begun = await outcomes(fleet)
        left = iter(range(UNKNOWN))

        async def ask_for_it() -> None:
            async with await Connection(fleet.envoy.url).open() as connection:
                for number in left:
                    if number % 2:
                        connection.send(body=b'{"model": "gpt-9"}')
                    else:
                        connection.write(b"GET /v1/x HTTP/1.1\r\nhost: test\r\n")
                        connection.write(b"x-isocost-model: gpt-9\r\n\r\n")
                    assert await connection.answer() == 404

        before = len(fleet.envoy.access_log())
        await asyncio.gather(*(ask_for_it() for _ in range(AT_ONCE)))
        entries = (await fleet.envoy.logged(before + UNKNOWN))[before:]
        assert {decision_fields(entry)["reason"] for entry in entries} == {"unknown_model"}
        # What comes after them is counted, so what they left would be too.
        await fleet.complete(40)
        await fleet.envoy.logged(before + UNKNOWN + 40)
        await wait_until(lambda: counts_what_succeeded(fleet), "the others are counted")
        await wait_until(lambda: fleet.counts(0), "nothing is open")
        assert sum(len(backend.received) for backend in backends) == 40
        assert await outcomes(fleet) - begun == {"started": 40, "succeeded": 40}
        # The VMs are those of before.
        assert await fleet.envoy.stats(r"^wasm\.") == vms


async def counts_what_succeeded(fleet: StandInFleet) -> bool:
    """Does the control plane count as many good answers as clients have got?"""
    answers = sum(entry["status"] == 200 for entry in fleet.envoy.access_log())
    return (await outcomes(fleet))["succeeded"] == answers


async def outcomes(fleet: StandInFleet) -> Counter[str]:
    """How many requests began and ended in which way, on all nodes."""
    return sum((Counter(row["outcomes"]) for row in await fleet.node_rows()), Counter[str]())


async def test_where_no_node_names_its_models_every_model_is_served(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    rows = [Row(await start_node("node-1")), Row(await start_node("node-2"))]
    async with running(rows) as envoy:
        assert set(await ask(client, envoy, asks("gpt-9"), count=40)) == {"node-1", "node-2"}


async def test_a_node_gets_no_request_that_its_context_cannot_hold(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    short, long = Model("m", max_length_tokens=1_000), Model("m", max_length_tokens=100_000)
    rows = [
        Row(await start_node("short", models=(short,))),
        Row(await start_node("long", models=(long,))),
    ]
    async with running(rows) as envoy:
        assert await ask(client, envoy, asks("m", 4_000)) == {"long": REQUESTS}
        # The answer counts as it is expected, not as long as it may be.
        body = asks("m", 500, max_tokens=2_000)
        assert set(await ask(client, envoy, body, count=40)) == {"short", "long"}
        assert set(await ask(client, envoy, asks("m", 10), count=40)) == {"short", "long"}


async def test_a_node_gets_no_request_that_its_kv_pool_cannot_hold(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    rows = [
        Row(await start_node("small"), kv_capacity_tokens=1_000),
        Row(await start_node("large"), kv_capacity_tokens=1_000_000),
    ]
    async with running(rows) as envoy:
        assert await ask(client, envoy, asks(words=4_000)) == {"large": REQUESTS}


async def test_a_retry_does_not_leave_the_nodes_of_the_model(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    failing = await start_node("small-1", models=(SMALL,))
    refusing = await start_node("small-2", models=(SMALL,))
    large = await start_node("large-1", models=(LARGE,))
    async with running([Row(failing), Row(refusing), Row(large)]) as envoy:
        failing.answer = status(500)
        await refusing.stop()
        for number in range(REQUESTS):
            code, _ = await post(client, envoy, body=asks("small")(number))
            assert code in (500, 503)
        assert failing.received
        assert not large.received
        # How Envoy is told to stop there is for Envoy only.
        assert not any("x-envoy-max-retries" in item.headers for item in failing.received)


async def test_prompts_go_to_the_nodes_of_their_length_class(
    running: Running, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    rows = [
        Row(await start_node("short", models=(SMALL,), max_input_tokens=2_000)),
        Row(await start_node("long", models=(SMALL,), min_input_tokens=2_000)),
    ]
    async with running(rows) as envoy:
        for words, node in ((1, "short"), (1_000, "short"), (4_000, "long"), (60_000, "long")):
            assert await ask(client, envoy, asks("small", words)) == {node: REQUESTS}, words


async def test_a_model_goes_only_to_the_gpu_kinds_that_the_control_plane_ties_it_to(
    stand_in_fleet: StandInFleet, start_node: StartNode, client: aiohttp.ClientSession
) -> None:
    models = (Model(MODEL, aliases=("small",)), LARGE)
    nodes = [
        await start_node(f"{kind}-{number}".lower(), gpu_kind=kind, models=models)
        for kind in ("A100", "H100")
        for number in (1, 2)
    ]
    tied = [
        {"name": MODEL, "gpu_kinds": ["A100"]},
        {"name": LARGE.name, "gpu_kinds": ["H100"]},
    ]
    async with stand_in_fleet.running(nodes, models=tied, policy="equal_cost"):
        envoy = stand_in_fleet.envoy
        for model, expected in ((MODEL, "a100"), ("small", "a100"), (LARGE.name, "h100")):
            counts = await ask(client, envoy, asks(model), count=40)
            assert set(counts) == {f"{expected}-1", f"{expected}-2"}, model
