"""A control plane's file changes under load: a good one is in force, a bad one is not, none costs
a request or a stream.
"""

from __future__ import annotations

import signal
from typing import Any

import yaml

from tests.integration.conftest import StartBackend
from tests.integration.harness.fleet import decision_fields
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until

#: From a change of the file to the reading of it, with half a second for this machine.
NOTICED_S = 2.5


class File:
    """The configuration of the fleet's control plane."""

    def __init__(self, fleet: StandInFleet) -> None:
        self._fleet = fleet
        self._path = fleet._folder / "control-plane.yaml"

    def write(self, section: str, **values: Any) -> None:
        data = yaml.safe_load(self._path.read_text())
        data.setdefault(section, {}).update(values)
        self._path.write_text(yaml.safe_dump(data))

    async def reloads(self) -> dict[str, int]:
        return dict((await self._fleet.status())["config"]["reloads"])

    async def until(self, result: str) -> dict[str, Any]:
        """Wait for one more reading that comes to this; the page's word on the configuration."""
        before = (await self.reloads())[result]

        async def came() -> bool:
            return (await self.reloads())[result] > before

        await wait_until(came, f"a file is {result}", NOTICED_S)
        return dict((await self._fleet.status())["config"])


async def policies(fleet: StandInFleet) -> set[str]:
    """By which the next requests are picked."""
    before = len(fleet.envoy.access_log())
    await fleet.complete(10)
    entries = (await fleet.envoy.logged(before + 10))[before:]
    return {decision_fields(entry)["policy"] for entry in entries}


async def picks(fleet: StandInFleet) -> int:
    return int((await fleet.status())["decisions"]["picked"])


async def test_a_file_that_changes_under_load_costs_nothing_and_a_bad_one_changes_nothing(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in (1, 2)]
    async with fleet.running(backends, policy="weighted_random"):
        file = File(fleet)
        await fleet.override("node-1", weight=0.5)
        async with SteadyLoad(fleet.envoy.url, per_s=60) as load:
            await wait_until(lambda: picks(fleet), "requests are reported")
            before = await fleet.status()
            file.write("filter", policy="min_entropy")
            good = await file.until("applied")
            assert good["loaded_at_unix_s"] > before["config"]["loaded_at_unix_s"]

            async def picked() -> bool:
                return await policies(fleet) == {"min_entropy"}

            await wait_until(picked, "the new policy picks", NOTICED_S)

            file.write("states", widow_s=3)
            bad = await file.until("refused")
            assert [item["field"] for item in bad["refused"]["fields"]] == ["states.widow_s"]
            assert bad["sha256"] == good["sha256"]
            # The same file again.
            fleet.control_plane.signal(signal.SIGHUP)
            await file.until("refused")
            assert await policies(fleet) == {"min_entropy"}
        after = await fleet.status()
        rows = {row["name"]: row for row in await fleet.node_rows()}
    assert load.failures == []
    assert load.sent > 60
    # Nobody came again, and what was set by hand, observed and counted is there.
    connected = [status["push"]["clients"] for status in (before, after)]
    assert [client["peer"] for client in connected[0]] == [
        client["peer"] for client in connected[1]
    ]
    assert rows["node-1"]["override"]["weight"] == 0.5
    assert after["decisions"]["picked"] > before["decisions"]["picked"]
    assert after["table_version"] > before["table_version"]
    assert {row["state"] for row in rows.values()} == {"serving"}
