"""What the nodes of a machine share: its GPUs and its network, read beside the ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from isocost.config import AgentConfig, AgentNodeSettings
from isocost.schedule import ticks
from isocost.telemetry.network import Network
from isocost.telemetry.nvml.process import Nvml

#: The rate is a mean of 5 s.
NETWORK_INTERVAL_S = 0.5


class Machine:
    """``nvml`` None: no node had GPUs that are read through it so far."""

    def __init__(self, config: AgentConfig) -> None:
        self.procfs = Path(config.procfs)
        self._nvml_needed = asyncio.Event()
        self.nvml: Nvml | None = None
        self.serve(config.nodes)
        self.network = Network(self.procfs, Path(config.sysfs))
        self._network_read = asyncio.Event()

    def serve(self, nodes: Iterable[AgentNodeSettings]) -> None:
        """Read what these nodes need, from now on."""
        if self.nvml is None and any(node.gpus for node in nodes):
            self.nvml = Nvml()
            self._nvml_needed.set()

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_network())
            await self._nvml_needed.wait()
            if self.nvml is not None:
                await self.nvml.run()

    async def heard(self) -> None:
        """Wait until all was read once, and the network twice: a rate needs that."""
        await self._network_read.wait()
        if self.nvml is not None:
            await self.nvml.heard()

    async def _read_network(self) -> None:
        readings = 0
        async for _ in ticks(NETWORK_INTERVAL_S):
            # In a thread: some cards ask their firmware for a counter.
            await asyncio.to_thread(self.network.read)
            readings += 1
            if readings == 2:
                self._network_read.set()
