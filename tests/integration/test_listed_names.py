"""A discovery file of names behind a real Envoy: a ghost is out, the unresolved are shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.integration.conftest import StartBackend, StartIsocost
from tests.integration.harness.gateway import post, wait_for_members
from tests.integration.harness.ports import free_port
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

#: A probe every 5 s, three tries, and a busy machine.
PROBED_S = 15.0
REQUESTS = 20


def listed(**addresses: str) -> dict[str, Any]:
    nodes = [
        {"name": name, "address": address, "rack": "rack-1", "host": f"{name}-host"}
        for name, address in addresses.items()
    ]
    return {"nodes": nodes}


async def test_names_become_nodes_a_ghost_is_out_and_who_has_no_address_is_shown(
    stand_in_fleet: StandInFleet,
    start_backend: StartBackend,
    start_isocost: StartIsocost,
    tmp_path: Path,
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in range(2)]
    ports = [backend.address.rpartition(":")[2] for backend in backends]
    file = tmp_path / "nodes.yaml"
    file.write_text(
        yaml.safe_dump(
            listed(
                first=f"localhost:{ports[0]}",
                second=f"localhost:{ports[1]}",
                ghost=f"localhost:{free_port()}",
                nowhere="no-such-name.invalid:80",
            )
        )
    )
    fleet.start_control_plane(discovery={"file": str(file)})
    fleet.start_gateway()
    await wait_until(lambda: ghost_is_out(fleet), "the ghost is out", PROBED_S)
    await wait_for_members(fleet.envoy, total=3, healthy=2)
    rows = {row["name"]: row for row in await fleet.node_rows()}
    assert rows["first"]["address"] == f"127.0.0.1:{ports[0]}"
    for _ in range(REQUESTS):
        assert (await post(fleet.session, fleet.envoy))[0] == 200
    assert all(backend.received for backend in backends)

    discovery = (await fleet.status())["discovery"]
    assert discovery["unreachable"] == ["ghost"]
    assert [row["name"] for row in discovery["unresolved"]] == ["nowhere"]
    (source,) = discovery["sources"]
    assert (source["name"], source["nodes"], source["error"]) == ("file", 4, None)
    command = start_isocost("nodes", "--http", f"127.0.0.1:{fleet.http_port}")
    await wait_until(lambda: not command.running, "the command ends")
    text = command.stdout.read_text()
    assert re.search(r"^ghost .* lost +unreachable ", text, re.MULTILINE)
    assert "not in the roster: nowhere at no-such-name.invalid:80: " in text


async def ghost_is_out(fleet: StandInFleet) -> bool:
    try:
        rows = {row["name"]: row for row in await fleet.node_rows()}
    except aiohttp.ClientError:
        return False
    return "ghost" in rows and rows["ghost"]["reason"] == "unreachable"
