"""What the demo sees of a control plane and an access log."""

import json
from pathlib import Path

import aiohttp

from isocost.bench.access_log import AccessLog
from isocost.bench.control_plane import ControlPlane
from isocost.demo.fleet import DemoNode, fleet
from isocost.demo.observer import DemoObserver
from tests.unit.bench.fake_control_plane import fake_control_plane, row

FLEET = fleet(21420)[:2]


def log_line(node: DemoNode) -> str:
    return json.dumps({"node": node.name, "decision": "reason=picked age_ms=1"}) + "\n"


async def test_shares_are_those_of_the_log_and_of_what_is_open(
    tmp_path: Path,
) -> None:
    first, second = FLEET
    path = tmp_path / "access.log"
    async with fake_control_plane() as fake, aiohttp.ClientSession() as session:
        observer = DemoObserver(FLEET, AccessLog(path), ControlPlane(session, fake.url))
        assert [view.share for view in observer.view()] == [None, None]
        fake.rows = [row(first.name, 0.25)]
        await observer.sample(0.0)
    path.write_text(log_line(first) * 3 + log_line(second) * 2)
    observer.read_log()
    open_requests = 3
    assert [view.requests for view in observer.view()] == [3 + open_requests, 2]
    assert [view.share for view in observer.view()] == [0.75, 0.25]
    statuses = [view.status for view in observer.view()]
    assert statuses[0] is not None and statuses[0].weight == 0.25
    assert statuses[1] is None
