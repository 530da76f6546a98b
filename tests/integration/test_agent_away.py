"""An agent whose control plane is away for a minute: patient, small, and fresh when it is back."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from isocost.telemetry.uplink import BACKOFF_MAX_S, BACKOFF_MIN_S
from tests.integration.harness.memory import rss_kb
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.telemetry_stand_in import telemetry_stand_in
from tests.integration.harness.wait import wait_until
from tests.unit.telemetry.page_server import page_server

pytestmark = pytest.mark.side_by_side

AWAY_S = 60.0
#: Back-off and connecting, on a busy machine.
BACK_WITHIN_S = BACKOFF_MAX_S + 2.0
INTERVAL_S = 0.2
MAX_GROWTH_KB = 2_000


@asynccontextmanager
async def closing_at_once(port: int) -> AsyncIterator[list[float]]:
    """Nobody but a machine that closes every connection: when they came."""
    tried_s: list[float] = []

    def turn_away(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tried_s.append(time.monotonic())
        writer.close()

    server = await asyncio.start_server(turn_away, "127.0.0.1", port)
    try:
        yield tried_s
    finally:
        server.close()


async def test_it_tries_with_jitter_does_not_grow_and_sends_nothing_old(
    start_isocost: Callable[..., Process], tmp_path: Path
) -> None:
    port = free_port()
    async with page_server() as page:
        node = page.settings.model_dump(mode="json", exclude_defaults=True)
        config = {"name": "a1", "control_plane": f"127.0.0.1:{port}", "http": None, "nodes": [node]}
        file = tmp_path / "agent.yaml"
        file.write_text(yaml.safe_dump(config))
        process = start_isocost("agent", "--config", str(file))
        async with telemetry_stand_in(port) as first:
            await wait_until(lambda: len(first) >= 10, "it reports")
        before_kb = rss_kb(process.pid)
        async with closing_at_once(port) as tried_s:
            end_s = time.monotonic() + AWAY_S
            await wait_until(lambda: time.monotonic() > end_s, "a minute", AWAY_S + 5.0)
        grown_kb = rss_kb(process.pid) - before_kb
        back_s = time.monotonic()
        async with telemetry_stand_in(port) as later:
            await wait_until(lambda: len(later) >= 20, "it reports again")
    process.require_running()

    waits_s = [later_s - earlier_s for earlier_s, later_s in itertools.pairwise(tried_s)]
    late_s = waits_s[len(waits_s) // 2 :]
    assert len(tried_s) <= AWAY_S / BACKOFF_MIN_S
    # The longer the outage the longer the waits, and none is like the others.
    assert statistics.mean(late_s) > BACKOFF_MAX_S / 4
    assert max(waits_s) < BACK_WITHIN_S and statistics.stdev(late_s) > BACKOFF_MAX_S / 10
    assert grown_kb < MAX_GROWTH_KB

    assert later[0].at_s - back_s < BACK_WITHIN_S
    assert max(arrival.age_s for arrival in later) < 1.0
    sequences = [arrival.report.sequence for arrival in later]
    assert sequences[0] > first[-1].report.sequence + 0.9 * AWAY_S / INTERVAL_S
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    # One a tick from the first on: what was sampled meanwhile does not follow in a burst.
    assert later[-1].at_s - later[0].at_s > (len(later) - 2) * INTERVAL_S
