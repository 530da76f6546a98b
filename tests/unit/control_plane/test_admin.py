"""The control plane's pages: honest readiness, JSON errors, bounded metrics."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from isocost import admin
from isocost.admin import application
from isocost.config import ControlPlaneConfig
from isocost.config_source import built_in
from isocost.errors import RejectedError, StateError
from isocost.manual import Note
from isocost.metrics import (
    ControlPlaneMetrics,
    DiscoveryGauges,
    FleetGauges,
    NodeStanding,
    SourceGauges,
)
from isocost.reload import Reload


class FakeSubject:
    """What the pages show, and what they were told."""

    def __init__(self) -> None:
        self.reason: str | None = "no node is known yet"
        self.told: list[tuple[str, str, object]] = []
        self.notes: list[Note] = []
        gauges = FleetGauges(
            nodes=["a"],
            columns={
                "weight": [1],
                "entropy": [math.inf],
                "capacity": [0.5],
                "in_flight": [3],
                "pending_tokens": [700],
                "kv_tokens": [900],
                "token_seconds": [1e-4],
                "share_factor": [0.5],
                "health": [0.25],
                "first_byte_seconds": [0.25],
                "output_token_seconds": [math.nan],
                "sample_age_seconds": [0.125],
                "requests": [11],
                "good_answers": [10],
                "failures": [1],
                "rate_limited": [0],
            },
            standings=[NodeStanding("rack-1", "serving", "ok")],
            states={"serving": 1, "lost": 0},
            signals={"kv_usage": {"measured": 0, "absent": 1}},
            findings={"xid_fatal": 2, "gpu_lost": 0},
            guards={"clock_skew": 1, "frozen": 0},
            missing_inputs=["kv_usage"],
            policy="equal_cost",
            decisions={"picked": 7},
            transitions={("serving", "ejected", "failures"): 2},
            envoys=2,
            workers={"edge-1": (3, 1)},
            nacks={"Table": 1},
            refusing={"Table": 1},
            invalid_streams=9,
            stale_choices=5,
            answers={"stop": 6, "length": 0},
            output_tokens=8,
            subscribers=4,
            table_unix_s=1.79e9,
            push_interval_s={"0.5": 0.2, "0.99": 0.25},
            discovery=DiscoveryGauges(
                sources={"file": SourceGauges(math.nan, math.nan, error=True, held=0, refused=4)},
                conflicts=3,
                unresolved=2,
                stale_names=1,
                unreachable=6,
            ),
        )
        config = built_in(ControlPlaneConfig())
        reload: Reload[ControlPlaneConfig] = Reload(config, frozenset(), lambda _: None)
        self.metrics = ControlPlaneMetrics(lambda: gauges, reload)

    async def metrics_page(self) -> bytes:
        return await self.metrics.page()

    def status(self) -> dict[str, object]:
        return {"nodes": {"serving": 1}}

    async def nodes_page(self, signals: bool) -> str:
        return json.dumps({"nodes": [{"name": "a", "signals": signals}], "unseen": []})

    def why(self, name: str) -> dict[str, object]:
        if name != "a":
            raise RejectedError(f"there is no node {name!r} in the table")
        return {"name": name}

    def not_ready(self) -> str | None:
        return self.reason

    async def override(self, name: str, data: dict[str, object] | None, note: Note) -> None:
        self._take(name, "override", data, note)

    async def drain(self, name: str, wanted: bool, note: Note) -> None:
        self._take(name, "drain", wanted, note)

    def _take(self, name: str, what: str, value: object, note: Note) -> None:
        if name == "full":
            raise StateError("no space left")
        if name != "a":
            raise RejectedError(f"there is no node {name!r}")
        self.told.append((name, what, value))
        self.notes.append(note)


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
    assert 'isocost_signal_nodes{signal="kv_usage",state="absent"} 1.0' in lines
    assert 'isocost_policy_input_missing{signal="kv_usage"} 1.0' in lines
    assert 'isocost_envoy_workers_live{envoy="edge-1"} 3.0' in lines
    assert 'isocost_envoy_workers_missing{envoy="edge-1"} 1.0' in lines
    assert "isocost_stale_choices_total 5.0" in lines
    assert 'isocost_answers_total{finish="stop"} 6.0' in lines
    assert 'isocost_answers_total{finish="length"} 0.0' in lines
    assert "isocost_output_tokens_total 8.0" in lines
    assert "isocost_discovery_conflicts 3.0" in lines
    assert 'isocost_discovery_source_nodes{source="file"} NaN' in lines
    assert 'isocost_discovery_source_age_seconds{source="file"} NaN' in lines
    assert 'isocost_discovery_source_error{source="file"} 1.0' in lines
    assert 'isocost_discovery_held_nodes{source="file"} 0.0' in lines
    assert 'isocost_discovery_refused_entries{source="file"} 4.0' in lines
    assert "isocost_discovery_unresolved_nodes 2.0" in lines
    assert "isocost_discovery_stale_names 1.0" in lines
    assert "isocost_discovery_unreachable_nodes 6.0" in lines
    assert "isocost_tick_errors_total 0.0" in lines
    assert 'isocost_node_state{node="a",rack="rack-1",reason="ok",state="serving"} 1.0' in lines
    assert 'isocost_node_requests_total{node="a"} 11.0' in lines
    assert 'isocost_node_good_answers_total{node="a"} 10.0' in lines
    assert 'isocost_node_failures_total{node="a"} 1.0' in lines
    assert 'isocost_node_rate_limited_total{node="a"} 0.0' in lines
    assert 'isocost_node_first_byte_seconds{node="a"} 0.25' in lines
    assert 'isocost_node_output_token_seconds{node="a"} NaN' in lines
    assert 'isocost_node_sample_age_seconds{node="a"} 0.125' in lines
    assert 'isocost_policy_info{policy="equal_cost"} 1.0' in lines
    assert 'isocost_push_interval_seconds{quantile="0.99"} 0.25' in lines
    assert 'isocost_node_share_factor{node="a"} 0.5' in lines
    assert 'isocost_node_health{node="a"} 0.25' in lines
    assert 'isocost_health_findings{row="xid_fatal"} 2.0' in lines
    assert 'isocost_health_findings{row="gpu_lost"} 0.0' in lines
    assert 'isocost_guarded_nodes{guard="clock_skew"} 1.0' in lines
    labels = 'from="serving",reason="failures",to="ejected"'
    assert any(
        line.startswith("isocost_node_transitions_total{")
        and sorted(line[31:].partition("}")[0].split(",")) == labels.split(",")
        and line.endswith(" 2.0")
        for line in lines
    )


async def test_the_nodes_page_is_json(url: str, session: ClientSession) -> None:
    async with session.get(f"{url}/v1/nodes") as response:
        assert response.content_type == "application/json"
        assert (await response.json())["nodes"] == [{"name": "a", "signals": False}]
    async with session.get(f"{url}/v1/nodes?signals") as response:
        assert (await response.json())["nodes"] == [{"name": "a", "signals": True}]


async def test_why_is_asked_of_a_node(url: str, session: ClientSession) -> None:
    async with session.get(f"{url}/v1/nodes/a/why") as response:
        assert response.status == 200 and await response.json() == {"name": "a"}
    async with session.get(f"{url}/v1/nodes/b/why") as response:
        assert response.status == 400


async def test_orders_reach_the_control_plane_with_who_and_why(
    url: str, session: ClientSession, subject: FakeSubject
) -> None:
    note = {"who": "ana@ops", "why": "fan"}
    for method, page, body in (
        ("PUT", "override", {"entropy": "inf", **note}),
        ("DELETE", "override", note),
        ("PUT", "drain", note),
        ("DELETE", "drain", None),
    ):
        async with session.request(method, f"{url}/v1/nodes/a/{page}", json=body) as response:
            assert response.status == 200, await response.text()
    assert subject.told == [
        ("a", "override", {"entropy": "inf"}),
        ("a", "override", None),
        ("a", "drain", True),
        ("a", "drain", False),
    ]
    assert [(given.who, given.why) for given in subject.notes] == [
        *[("ana@ops", "fan")] * 3,
        ("unknown", ""),
    ]
    assert all(given.at_unix_s > 1.7e9 for given in subject.notes)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/nodes/a/override", b"{", "not JSON"),
        ("/v1/nodes/a/override", b"\xff\xfe", "not JSON"),
        ("/v1/nodes/a/override", b"[" * 60_000, "not JSON"),
        ("/v1/nodes/a/override", b"[]", "must be a JSON object"),
        ("/v1/nodes/a/override", b'{"weight": 1, "why": 7}', "why: '7' is not allowed"),
        ("/v1/nodes/b/override", b'{"weight": 1}', "no node 'b'"),
        ("/v1/nodes/a/drain", b'{"wait": true}', "unknown field 'wait'"),
        ("/v1/nodes/b/drain", b"", "no node 'b'"),
    ],
)
async def test_a_bad_order_is_refused_in_words(
    url: str, session: ClientSession, subject: FakeSubject, path: str, body: bytes, words: str
) -> None:
    async with session.put(url + path, data=body) as response:
        assert response.status == 400
        assert words in (await response.json())["error"]["message"]
    assert subject.told == []


async def test_an_order_that_could_not_be_kept_is_no_success(
    url: str, session: ClientSession
) -> None:
    async with session.put(f"{url}/v1/nodes/full/drain", json={}) as response:
        assert response.status == 500
        assert (await response.json())["error"]["message"] == "no space left"


@pytest.mark.parametrize("remote", ["192.0.2.7", "2001:db8::7", "fe80::1%eth0", None])
async def test_orders_from_other_machines_are_refused_and_pages_are_not(
    url: str,
    session: ClientSession,
    subject: FakeSubject,
    monkeypatch: pytest.MonkeyPatch,
    remote: str | None,
) -> None:
    monkeypatch.setattr(web.Request, "remote", property(lambda _: remote))
    for method in ("PUT", "DELETE"):
        for page in ("override", "drain"):
            async with session.request(method, f"{url}/v1/nodes/a/{page}") as response:
                assert response.status == 403
                words = (await response.json())["error"]["message"]
                assert "from the control plane's machine only" in words
    assert subject.told == []
    async with session.get(f"{url}/v1/nodes") as response:
        assert response.status == 200


@pytest.mark.parametrize("remote", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_this_machine_has_many_addresses(remote: str) -> None:
    assert admin._from_here(remote)


async def test_an_unknown_page_is_a_json_404(url: str, session: ClientSession) -> None:
    async with session.get(f"{url}/nowhere") as response:
        assert response.status == 404
        assert "/nowhere" in (await response.json())["error"]["message"]


async def test_a_body_over_the_limit_is_refused_as_json(url: str, session: ClientSession) -> None:
    async with session.put(f"{url}/v1/nodes/a/override", data=b"0" * 200_000) as response:
        assert response.status == 413
        assert (await response.json())["error"]["message"]
