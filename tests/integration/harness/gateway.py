"""Envoy with an ADS server and engines behind it, for tests of the data path without the filter."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import aiohttp

from isocost.model import NodeState
from tests.integration.harness.backend import Backend
from tests.integration.harness.endpoints import NodeEndpoint
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.wait import DEADLINE_S, wait_until

COMPLETIONS = "/v1/chat/completions"


def serving(*backends: Backend) -> list[NodeEndpoint]:
    """The backends as endpoints in full service."""
    return [NodeEndpoint(backend.node, NodeState.SERVING) for backend in backends]


async def wait_for_members(
    envoy: Envoy, total: int, healthy: int, deadline_s: float = DEADLINE_S
) -> None:
    """Return when Envoy listens and its node cluster has so many members, so many healthy."""
    await envoy.wait_live()

    async def arrived() -> bool:
        envoy.require_running()
        stats = await envoy.stats("^cluster.isocost_nodes.membership")
        prefix = "cluster.isocost_nodes.membership_"
        wanted = {f"{prefix}total": total, f"{prefix}healthy": healthy}
        return wanted.items() <= stats.items()

    await wait_until(arrived, f"{total} members, {healthy} of them healthy", deadline_s)


async def post(
    client: aiohttp.ClientSession,
    envoy: Envoy,
    headers: Sequence[tuple[str, str]] = (),
    body: bytes = b"{}",
) -> tuple[int, bytes]:
    """One completion request; the answer's status and body."""
    url = envoy.url + COMPLETIONS
    async with client.post(url, data=BytesIO(body), headers=list(headers)) as response:
        return response.status, await response.read()
