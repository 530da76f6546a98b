"""An agent's process beside Consul: its nodes are there while it runs, its reports come anyway."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from isocost.discovery.listing import Check
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.consul_nodes import SEEN_S, checks, listed, until_checks, watching
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.telemetry_stand_in import telemetry_stand_in
from tests.integration.harness.wait import wait_until
from tests.unit.discovery.fake_consul import fake_consul
from tests.unit.telemetry.page_server import PageServer, page_server

REPORTS = 15


def configured(folder: Path, page: PageServer, **changes: Any) -> str:
    """The file of an agent with one node, whose pages are ``page``."""
    node = page.settings.model_dump(mode="json", exclude_defaults=True)
    config = {"name": "a1", "http": None, "nodes": [node], **changes}
    file = folder / "agent.yaml"
    file.write_text(yaml.safe_dump(config))
    return str(file)


async def test_nodes_are_in_consul_from_the_first_page_to_the_clean_stop(
    consul_server: ConsulServer, start_isocost: Callable[..., Process], tmp_path: Path
) -> None:
    await consul_server.start()
    async with page_server() as page, watching(consul_server.http) as watch:
        settings = {"address": consul_server.http, "check_ttl_s": 15}
        file = configured(tmp_path, page, consul=settings)
        agent = start_isocost("agent", "--config", file)
        await until_checks(watch, Check.PASSING, deadline_s=15.0)
        (item,) = listed(watch) or ()
        # The start is the engine's own.
        assert item.node == page.settings.node(1000)
        # An engine that fails is told long before the TTL is over.
        page.status = 500
        await wait_until(lambda: checks(watch) == [Check.WARNING], "it is silent")
        stop_s = time.monotonic()
        assert await asyncio.to_thread(agent.stop) == 0
        await wait_until(lambda: listed(watch) == (), "it is gone", SEEN_S)
        assert time.monotonic() - stop_s < 3.0


async def test_a_consul_that_takes_calls_and_does_not_answer_delays_no_report(
    start_isocost: Callable[..., Process], tmp_path: Path
) -> None:
    port = free_port()
    async with page_server() as page, fake_consul() as consul, telemetry_stand_in(port) as arrivals:
        file = configured(
            tmp_path,
            page,
            control_plane=f"127.0.0.1:{port}",
            consul={"address": consul.address, "check_ttl_s": 2},
        )
        agent = start_isocost("agent", "--config", file)
        await wait_until(lambda: consul.asked, "it wants to register")
        first = len(arrivals)
        await wait_until(lambda: len(arrivals) >= first + REPORTS, "it reports")
        # A time-out was among these.
        assert len(consul.asked) >= 2
        stop_s = time.monotonic()
        assert await asyncio.to_thread(agent.stop) == 0
        assert time.monotonic() - stop_s < 3.0
    taken_s = [arrival.report.monotonic_s for arrival in arrivals[first:]]
    gaps_s = sorted(after_s - before_s for before_s, after_s in itertools.pairwise(taken_s))
    # None is left out: another one's hiccup on a busy machine aside.
    assert gaps_s[-3] < 0.3
