"""The nodes that an agent samples, which may change while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from isocost.config import AgentNodeSettings
from isocost.telemetry.machine import Machine
from isocost.telemetry.sampler import NodeSampler
from isocost.telemetry.scrape import Pages


class Nodes:
    """``samplers`` are those of now, in the order of the settings."""

    def __init__(self, pages: Pages, machine: Machine) -> None:
        self._pages = pages
        self._machine = machine
        self.samplers: tuple[NodeSampler, ...] = ()
        #: Who is left without its node.
        self._gone: list[NodeSampler] = []
        self._changed = asyncio.Event()

    def follow(self, nodes: Iterable[AgentNodeSettings]) -> None:
        """Sample these from now on; a node whose settings are equal goes on as it is."""
        before = {sampler.name: sampler for sampler in self.samplers}
        samplers = []
        for settings in nodes:
            former = before.get(settings.name)
            if former is not None and former.settings == settings:
                samplers.append(former)
                continue
            sampler = NodeSampler(settings, self._pages, self._machine)
            if former is not None:
                sampler.continue_from(former)
            samplers.append(sampler)
        self._gone += [sampler for sampler in self.samplers if sampler not in samplers]
        self.samplers = tuple(samplers)
        self._changed.set()

    async def watch(self) -> None:
        """Watch the engines' processes of the nodes of now until cancelled."""
        tasks: dict[NodeSampler, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for sampler in self.samplers:
                    if sampler not in tasks:
                        tasks[sampler] = group.create_task(sampler.watch())
                while self._gone:
                    sampler = self._gone.pop()
                    if (task := tasks.pop(sampler, None)) is not None:
                        task.cancel()
                    await sampler.close()
                await self._changed.wait()
