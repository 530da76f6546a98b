"""The control plane's pages: honest readiness, JSON errors, bounded metrics."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry

from isocost.admin import application
from isocost.errors import RejectedError
from isocost.metrics import ControlPlaneMetrics, FleetGauges
from isocost.weight.override import Override


class FakeSubject:
    """What the pages show, and what they were told."""

    def __init__(self) -> None:
        self.reason: str | None = "no node is known yet"
        self.told: list[tuple[str, Override | None]] = []
        gauges = FleetGauges(
            nodes={"a": {"weight": 1.0, "entropy": math.inf, "in_flight": 3}},
            states={"serving": 1, "lost": 0},
            decisions={"picked": 7},
            envoys=2,
            subscribers=4,
        )
        self.metrics = ControlPlaneMetrics(lambda: gauges)

    @property
    def registry_of_metrics(self) -> CollectorRegistry:
        return self.metrics.registry

    def status(self) -> dict[str, object]:
        return {"nodes": {"serving": 1}}

    def nodes(self) -> list[dict[str, object]]:
        return [{"name": "a", "entropy": "inf"}]

    def not_ready(self) -> str | None:
        return self.reason

    def set_override(self, name: str, override: Override | None) -> None:
        if name != "a":
            raise RejectedError(f"there is no node {name!r}")
        self.told.append((name, override))


@pytest.fixture
async def subject() -> FakeSubject:
    return FakeSubject()


@pytest.fixture
async def url(subject: FakeSubject) -> AsyncIterator[str]:
    runner = web.AppRunner(application(subject))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


async def test_readiness_says_why_and_health_stays_green(
    url: str, session: ClientSession, subject: FakeSubject
) -> None:
    async with session.get(f"{url}/healthz") as response:
        assert response.status == 200
    async with session.get(f"{url}/readyz") as response:
        assert response.status == 503
        assert (await response.json())["reason"] == "no node is known yet"
    subject.reason = None
    async with session.get(f"{url}/readyz") as response:
        assert response.status == 200


async def test_metrics_have_nodes_states_and_reasons(url: str, session: ClientSession) -> None:
    async with session.get(f"{url}/metrics") as response:
        lines = (await response.text()).splitlines()
    assert 'isocost_node_entropy{node="a"} +Inf' in lines
    assert 'isocost_node_in_flight{node="a"} 3.0' in lines
    assert 'isocost_nodes{state="lost"} 0.0' in lines
    assert 'isocost_decisions{reason="picked"} 7.0' in lines
    assert "isocost_envoys 2.0" in lines


async def test_an_override_reaches_the_control_plane(
    url: str, session: ClientSession, subject: FakeSubject
) -> None:
    async with session.put(f"{url}/v1/nodes/a/override", json={"entropy": "inf"}) as response:
        assert response.status == 200
    async with session.delete(f"{url}/v1/nodes/a/override") as response:
        assert response.status == 200
    assert subject.told == [("a", Override(entropy=math.inf)), ("a", None)]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/nodes/a/override", b'{"weight": 2}', "weight: 2 is not allowed"),
        ("/v1/nodes/a/override", b"{", "not JSON"),
        ("/v1/nodes/a/override", b"\xff\xfe", "not JSON"),
        ("/v1/nodes/b/override", b'{"weight": 1}', "no node 'b'"),
    ],
)
async def test_a_bad_override_is_refused_in_words(
    url: str, session: ClientSession, subject: FakeSubject, path: str, body: bytes, words: str
) -> None:
    async with session.put(url + path, data=body) as response:
        assert response.status == 400
        assert words in (await response.json())["error"]["message"]
    assert subject.told == []


async def test_an_unknown_page_is_a_json_404(url: str, session: ClientSession) -> None:
    async with session.get(f"{url}/nowhere") as response:
        assert response.status == 404
        assert "/nowhere" in (await response.json())["error"]["message"]


async def test_a_body_over_the_limit_is_refused_as_json(url: str, session: ClientSession) -> None:
    async with session.put(f"{url}/v1/nodes/a/override", data=b"0" * 200_000) as response:
        assert response.status == 413
        assert (await response.json())["error"]["message"]
