"""What a node loses under a real control plane: its old address, its weight, its share."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

from isocost.config import DiscoverySettings
from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import ok, reset
from tests.integration.harness.gateway import post, wait_for_members
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until

PER_S = 60
RESET_SETTLED_S = 5.0
RESET_SHARE = 0.05
#: The time of a silent node, and a second for a busy machine.
WITHDRAWN_S = DiscoverySettings().lost_after_ms / 1000 + 1.0
#: One push of 200 ms, and what Envoy and a busy machine take.
RECOVERY_S = 1.0


async def test_a_node_that_moves_gets_nothing_at_its_old_address(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    old, other = await start_backend("moves"), await start_backend("stays")
    new = await start_backend("moves")
    async with fleet.running([old, other]):
        moved = replace(old.node, address=new.address)
        fleet.announcer.nodes = (moved, other.node)
        await wait_until(lambda: new.received or _ask(fleet), "the new address serves")
        version = await fleet.next_table()
        await wait_until(lambda: fleet.picks_from(version), "every worker has that table")
        await wait_for_members(fleet.envoy, total=2, healthy=2)
        old.received.clear()
        before = len(new.received)
        for _ in range(40):
            assert (await post(fleet.session, fleet.envoy))[0] == 200
        assert not old.received
        assert len(new.received) > before


async def test_a_node_that_loses_its_address_is_withdrawn_as_a_silent_one(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    lost, other = await start_backend("lost"), await start_backend("stays")
    async with fleet.running([lost, other]):
        fleet.announcer.nodes = (replace(lost.node, address=""), other.node)
        started_s = time.monotonic()
        await wait_for_members(fleet.envoy, total=2, healthy=1)
        assert time.monotonic() - started_s <= WITHDRAWN_S
        version = await fleet.next_table()
        await wait_until(lambda: fleet.picks_from(version), "every worker has that table")
        lost.received.clear()
        for _ in range(40):
            assert (await post(fleet.session, fleet.envoy))[0] == 200
        assert not lost.received


async def _ask(fleet: StandInFleet) -> bool:
    await fleet.complete(10)
    return False


async def test_with_every_weight_at_zero_the_answer_is_503_until_one_returns(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in range(2)]
    async with fleet.running(backends):
        for backend in backends:
            await fleet.override(backend.name, weight=0.0)
        await wait_for_members(fleet.envoy, total=2, healthy=0)
        await wait_until(lambda: _refused(fleet), "every worker knows")
        for backend in backends:
            backend.received.clear()
        for _ in range(20):
            status, body = await post(fleet.session, fleet.envoy)
            assert status == 503
            error = json.loads(body)["error"]
            assert error["message"] == "No node can take the request now. Try again shortly."
        assert not any(backend.received for backend in backends)
        await fleet.override(backends[0].name)
        started_s = time.monotonic()

        async def served() -> bool:
            return (await post(fleet.session, fleet.envoy))[0] == 200

        await wait_until(served, "it serves again")
        took_s = time.monotonic() - started_s
        print("served again after", round(took_s, 3), "s")
        assert took_s <= RECOVERY_S
        fleet.envoy.require_running()


async def _refused(fleet: StandInFleet) -> bool:
    """Is a burst refused, so that every worker had some of it?"""
    statuses = [(await post(fleet.session, fleet.envoy))[0] for _ in range(10)]
    return set(statuses) == {503}


async def test_a_node_that_resets_every_connection_has_hardly_a_share_after_five_seconds(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}", answer=ok) for number in range(4)]
    broken = backends[0]
    async with fleet.running(backends), SteadyLoad(fleet.envoy.url, PER_S) as load:
        await wait_until(lambda: load.sent >= PER_S // 2, "load")
        broken.answer = reset
        # The time is the rule: what the node gets before counts for nothing.
        await asyncio.sleep(RESET_SETTLED_S)
        tried, sent = len(broken.received), load.sent
        await wait_until(lambda: load.sent >= sent + 2 * PER_S, "two seconds of load")
        share = (len(broken.received) - tried) / (load.sent - sent)
    print("share of the resetting node", round(share, 4), "of", load.sent - sent, "requests")
    assert share < RESET_SHARE
    assert load.failures == []
