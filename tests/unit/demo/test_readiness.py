"""The demo waits for what it needs and says what is missing."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from isocost.bench.access_log import AccessLog
from isocost.bench.control_plane import ControlPlane, NodeStatus
from isocost.bench.replay import ReplaySettings
from isocost.bench.statistics import Percentiles
from isocost.demo import readiness
from isocost.demo.fleet import fleet
from isocost.demo.processes import Processes
from isocost.errors import StartError
from tests.unit.bench.listening import listening

FLEET = fleet(21420)
READY = tuple(NodeStatus(node.name, "serving", 1.0, 0, 0.0, 0.0) for node in FLEET)
ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
    b'data: {"choices":[],"usage":{"completion_tokens":1}}\n\ndata: [DONE]\n\n'
)


class Scripted(ControlPlane):
    """Answers what a test says, one answer after the other, the last for ever."""

    def __init__(self, *answers: tuple[NodeStatus, ...] | None) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def nodes(self) -> tuple[NodeStatus, ...] | None:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    async def push_interval_ms(self) -> Percentiles:
        return Percentiles()


class Gateway:
    """Answers and logs like Envoy; ``reasons`` are the filter's, the last one for ever."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.reasons = ["picked"]
        self.status = 200
        self.url = ""

    async def handle(self, _: web.Request) -> web.Response:
        reason = self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0]
        with self.log.open("a") as file:
            file.write(json.dumps({"decision": f"reason={reason}"}) + "\n")
        return web.Response(body=ANSWER, status=self.status)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(tmp_path / "access.log")
    app = web.Application()
    app.router.add_post("/v1/chat/completions", gateway.handle)
    async with listening(app) as gateway.url:
        yield gateway


async def wait(gateway: Gateway, control_plane: ControlPlane) -> AccessLog:
    access_log = AccessLog(gateway.log)
    processes = Processes(gateway.log.parent)
    settings = ReplaySettings(f"{gateway.url}/v1/chat/completions", "m")
    await readiness.wait_ready(FLEET, processes, control_plane, access_log, settings)
    return access_log


async def test_it_waits_for_every_node_and_for_the_filter_and_reads_the_log_up_to_there(
    gateway: Gateway,
) -> None:
    gateway.reasons = ["no_table", "picked"]
    draining = (*READY[1:], replace(READY[0], state="draining"))
    control_plane = Scripted(None, (), READY[1:], draining, READY)
    async with asyncio.timeout(20):
        access_log = await wait(gateway, control_plane)
    assert control_plane.asked == 6
    assert access_log.read_new() == []


@pytest.mark.parametrize(
    ("nodes", "reason", "status", "missing"),
    [
        (None, "picked", 200, "the control plane does not answer"),
        (READY[1:], "picked", 200, f"no weight for {FLEET[0].name}"),
        (READY, "no_table", 200, "the filter did not pick: no_table"),
        (READY, "picked", 503, "a request through Envoy failed: status_5xx, status 503"),
    ],
)
async def test_at_the_deadline_it_says_what_is_missing(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    nodes: tuple[NodeStatus, ...] | None,
    reason: str,
    status: int,
    missing: str,
) -> None:
    monkeypatch.setattr(readiness, "_DEADLINE_S", 0.0)
    gateway.reasons, gateway.status = [reason], status
    with pytest.raises(StartError, match=f"not ready after 0 s: .*{missing}"):
        await wait(gateway, Scripted(nodes))
