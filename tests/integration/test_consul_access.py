"""A real Consul that lets not everyone in: tokens, TLS, datacenters."""

from __future__ import annotations

from pathlib import Path

import pytest

from isocost.discovery.listing import Listed
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.consul_nodes import (
    N1,
    N2,
    listed,
    registered,
    until_listed,
    watching,
)
from tests.integration.harness.wait import wait_until


def documented_rules() -> list[str]:
    """An agent's and a control plane's."""
    text = (Path(__file__).parents[2] / "docs" / "consul.md").read_text()
    return [block.split("```")[0] for block in text.split("```hcl\n")[1:]]


async def test_tokens_with_the_documented_rules_are_enough_and_a_deleted_one_is_replaced(
    consul_server: ConsulServer, tmp_path: Path
) -> None:
    consul_server.acls = True
    await consul_server.start()
    agents, watches = tmp_path / "agent-token", tmp_path / "watch-token"
    of_agents, of_control_planes = documented_rules()
    agents.write_text(await consul_server.token(of_agents))
    first = await consul_server.token(of_control_planes)
    watches.write_text(first)
    async with (
        watching(consul_server.http, token_file=str(watches)) as watch,
        registered(consul_server.http, N1, token_file=str(agents)),
    ):
        await until_listed(watch, N1)
        await consul_server.delete_token(first)
        # What wakes the watch, or it would notice when its wait is over.
        async with registered(consul_server.http, N2, token_file=str(agents)):
            await wait_until(lambda: "403" in (watch.source.error or ""), "it is refused")
            assert first not in (watch.source.error or "")
            assert listed(watch) == (Listed(N1),)
            watches.write_text(await consul_server.token(of_control_planes))
            await until_listed(watch, N1, N2)


async def test_with_tls_both_sides_are_known_by_our_own_authority(
    consul_server: ConsulServer,
) -> None:
    consul_server.tls = True
    await consul_server.start()
    folder = consul_server.certificates
    authority = {"ca_file": str(folder / "ca.pem")}
    client = {"cert_file": str(folder / "client.pem"), "key_file": str(folder / "client.key")}
    async with (
        watching(consul_server.https, **authority, **client) as watch,
        registered(consul_server.https, N1, **authority, **client),
        watching(consul_server.https) as stranger,
        watching(consul_server.https, **authority) as unnamed,
        watching(consul_server.https, ca_file=str(folder / "none.pem")) as lost,
    ):
        await until_listed(watch, N1)
        await wait_until(lambda: stranger.source.error, "an unknown authority is refused")
        assert "CERTIFICATE_VERIFY_FAILED" in (stranger.source.error or "")
        await wait_until(lambda: unnamed.source.error, "a client without certificate is refused")
        await wait_until(lambda: lost.source.error, "a file that is not there is told")
        assert "none.pem" in (lost.source.error or "")


@pytest.mark.parametrize("datacenter", ["dc1", "dc2"])
async def test_a_datacenter_is_asked_for_by_its_name(
    consul_server: ConsulServer, datacenter: str
) -> None:
    await consul_server.start()
    async with (
        registered(consul_server.http, N1),
        watching(consul_server.http, datacenter=datacenter) as watch,
    ):
        if datacenter == "dc1":
            await until_listed(watch, N1)
        else:
            await wait_until(lambda: watch.source.error, "there is no such datacenter")
            assert "No path to datacenter" in (watch.source.error or "")
