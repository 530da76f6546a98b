"""A real Envoy: started from a bootstrap, read through its access log and admin page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from isocost.config import BootstrapSettings
from isocost.envoy.binary import find_envoy
from isocost.envoy.bootstrap import bootstrap
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until


class Envoy(Process):
    """``url`` is where its listener is or will be, ``admin_url`` its admin page."""

    def __init__(self, data: dict[str, Any], folder: Path, concurrency: int = 1) -> None:
        config = folder / "envoy.yaml"
        config.write_text(yaml.safe_dump(data, sort_keys=False))
        (listener,) = data["static_resources"]["listeners"]
        self.url = f"http://127.0.0.1:{_port(listener['address'])}"
        self.admin_url = f"http://127.0.0.1:{_port(data['admin']['address'])}"
        command = [str(find_envoy()), "--config-path", str(config), "--log-level", "warning"]
        # Several Envoys side by side, and an access log that does not wait for 64 KB.
        command += ["--disable-hot-restart", "--file-flush-interval-msec", "50"]
        super().__init__("envoy", [*command, "--concurrency", str(concurrency)], folder)

    def access_log(self) -> list[dict[str, Any]]:
        """The requests that are finished and flushed, in the order of their ends."""
        lines = self.stdout.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    async def logged(self, count: int) -> list[dict[str, Any]]:
        """The access log once it has ``count`` entries."""
        await wait_until(lambda: len(self.access_log()) >= count, f"{count} log entries")
        return self.access_log()

    async def wait_live(self) -> None:
        """Return when Envoy takes requests; AssertionError with its messages if it ended."""

        async def live() -> bool:
            self.require_running()
            try:
                return any((await self.stats("^listener_manager.workers_started$")).values())
            except aiohttp.ClientError:
                return False

        await wait_until(live, "Envoy listens")

    async def stats(self, pattern: str) -> dict[str, int]:
        """Counters and gauges whose name matches the regular expression."""
        answer = json.loads(await self._admin(f"/stats?format=json&filter={pattern}"))
        return {item["name"]: item["value"] for item in answer["stats"] if "value" in item}

    async def _admin(self, path: str) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.admin_url + path) as response,
        ):
            return await response.text()


def local_bootstrap(
    control_plane_port: int, wasm_path: str = "", node_id: str = "edge-test"
) -> dict[str, Any]:
    """The shipped bootstrap on free ports of this machine."""
    return bootstrap(
        BootstrapSettings(
            node_id=node_id,
            listen=f"127.0.0.1:{free_port()}",
            admin=f"127.0.0.1:{free_port()}",
            control_plane=f"127.0.0.1:{control_plane_port}",
            wasm_path=wasm_path,
        )
    )


def _port(address: dict[str, Any]) -> int:
    return int(address["socket_address"]["port_value"])
