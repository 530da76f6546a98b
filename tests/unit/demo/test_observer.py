"""What the demo sees of a control plane and an access log."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from isocost.bench.access_log import AccessLog
from isocost.bench.report import Percentiles
from isocost.demo.control_plane import ControlPlane, NodeStatus
from isocost.demo.fleet import DemoNode, fleet
from isocost.demo.observer import Observer

FLEET = fleet(21420)[:2]


class FakeControlPlane:
    """The two pages that the demo reads, with what a test sets."""

    def __init__(self) -> None:
        self.weights: dict[str, float] = {}
        self.push: dict[str, object] = {"interval_ms": None}
        self.status = 200

    async def nodes(self, _: web.Request) -> web.Response:
        rows = [
            {
                "name": name,
                "state": "serving",
                "weight": weight,
                "in_flight": 3,
                "running": 2.0,
                "waiting": None,
            }
            for name, weight in self.weights.items()
        ]
        return web.json_response({"nodes": rows}, status=self.status)

    async def status_page(self, _: web.Request) -> web.Response:
        return web.json_response({"push": self.push}, status=self.status)


@pytest.fixture
async def served() -> AsyncIterator[tuple[FakeControlPlane, ControlPlane]]:
    fake = FakeControlPlane()
    app = web.Application()
    app.router.add_get("/v1/nodes", fake.nodes)
    app.router.add_get("/v1/status", fake.status_page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as session:
        yield fake, ControlPlane(session, runner.addresses[0][1])
    await runner.cleanup()


def log_line(node: DemoNode) -> str:
    return json.dumps({"node": node.name, "decision": "reason=picked age_ms=1"}) + "\n"


async def test_a_node_takes_traffic_when_it_is_eligible_and_has_weight() -> None:
    def status(state: str, weight: float | None) -> NodeStatus:
        return NodeStatus("n", state, weight, None, None, None)

    assert status("serving", 0.1).takes_traffic
    assert status("warming", 0.1).takes_traffic
    assert not status("serving", 0.0).takes_traffic
    assert not status("serving", None).takes_traffic
    assert not status("draining", 1.0).takes_traffic


async def test_pages_are_read_and_their_absence_is_unknown(
    served: tuple[FakeControlPlane, ControlPlane],
) -> None:
    fake, control_plane = served
    fake.weights = {"n": 0.5}
    assert await control_plane.nodes() == [NodeStatus("n", "serving", 0.5, 3, 2.0, None)]
    assert await control_plane.push_interval_ms() == Percentiles(None, None)
    fake.push = {"interval_ms": {"p50": 200.0, "p99": 210.0}}
    assert await control_plane.push_interval_ms() == Percentiles(200.0, 210.0)
    fake.status = 503
    assert await control_plane.nodes() is None
    assert await control_plane.push_interval_ms() == Percentiles(None, None)


async def test_weights_are_means_over_the_samples_and_shares_those_of_the_log(
    tmp_path: Path, served: tuple[FakeControlPlane, ControlPlane]
) -> None:
    fake, control_plane = served
    first, second = FLEET
    path = tmp_path / "access.log"
    observer = Observer(FLEET, AccessLog(path), control_plane)
    assert [view.share for view in observer.view()] == [None, None]
    for weight in (1.0, 0.5):
        fake.weights = {first.name: weight}
        await observer.sample(weigh=True)
    fake.weights = {first.name: 0.25}
    await observer.sample(weigh=False)
    path.write_text(log_line(first) * 3 + log_line(second) * 2)
    observer.read_log()
    open_requests = 3
    assert [view.requests for view in observer.view()] == [3 + open_requests, 2]
    assert [view.share for view in observer.view()] == [0.75, 0.25]
    statuses = [view.status for view in observer.view()]
    assert statuses[0] is not None and statuses[0].weight == 0.25
    assert statuses[1] is None
    assert [node.mean_weight for node in observer.weighed_nodes()] == [0.75, None]


async def test_reading_until_all_is_logged_ends_when_it_is(
    tmp_path: Path, served: tuple[FakeControlPlane, ControlPlane]
) -> None:
    path = tmp_path / "access.log"
    path.write_text(log_line(FLEET[0]) * 5)
    observer = Observer(FLEET, AccessLog(path), served[1])
    await observer.read_log_until(5)
    assert len(observer.log) == 5
