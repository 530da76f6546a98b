"""One fake node behind its interface: an engine, its pages, its network, and the faults of each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from isocost.errors import StartError
from isocost.fake.engine_process import EngineProcess
from isocost.fake.fault_control import FaultControl
from isocost.fake.faults import (
    ClockSkew,
    Delay,
    FrozenMetrics,
    Hang,
    Loss,
    OutOfMemory,
    Refuse,
    Restart,
    Slow,
    StaleMetrics,
)
from isocost.fake.listener import Listener
from isocost.fake.network import Network, Wire
from isocost.fake.node_machine import NodeMachine
from isocost.fake.settings import FakeNodeSettings
from isocost.fake.strict import Json, refuse
from isocost.fake.traffic import Traffic

#: A dying engine has so long to tell the open requests; then their connections are cut.
LAST_WORDS_S = 0.2
#: The machine's files follow the node as often as an agent reads them.
MACHINE_INTERVAL_S = 0.2

log = logging.getLogger(__name__)


class FakeNode:
    """Must be made inside a running event loop."""

    def __init__(self, settings: FakeNodeSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self._skew_s = 0.0
        self._frozen: tuple[bytes, bytes] | None = None
        self._pages_answer = asyncio.Event()
        self._pages_answer.set()
        self._down = False
        self._cut: asyncio.TimerHandle | None = None
        self._listener: Listener | None = None
        self._machine_timer: asyncio.TimerHandle | None = None
        self._machine_error = ""
        self.settings = settings
        self.traffic = Traffic(self._loop.time())
        self.machine: NodeMachine | None = None
        self.engine = EngineProcess(settings, self.traffic, self._wall_s)
        self.network = Network(f"{settings.seed}/{settings.name}/network")
        self.faults = FaultControl(self._apply)

    async def listen(self, handler: Callable[[], asyncio.Protocol]) -> int:
        """Serve with ``handler`` for each connection; returns the port. StartError: it is taken, or
        the machine's folder cannot be written.
        """
        settings = self.settings
        if settings.machine is not None:
            self._start_machine(settings.machine)
        listener = Listener(settings.host, settings.port, lambda: Wire(handler(), self.network))
        await listener.start()
        self._listener = listener
        return listener.port

    def stop(self) -> None:
        """No new connections, no more faults."""
        self.faults.stop()
        self._pages_answer.set()
        if self._listener is not None:
            self._listener.close()
        if self._cut is not None:
            self._cut.cancel()
        if self._machine_timer is not None:
            self._machine_timer.cancel()
        if self.machine is not None:
            self.machine.remove()

    def order_telemetry(self, data: Json) -> bytes:
        """The telemetry page thereafter."""
        self.engine.telemetry.order(data)
        self._update_machine()
        return self.engine.telemetry_page()

    def order_gpus(self, data: Json) -> bytes:
        """The page of the GPUs thereafter."""
        machine = self._machine_needed()
        machine.orders.order(data)
        self._update_machine()
        return machine.page()

    def gpus_page(self) -> bytes:
        return self._machine_needed().page()

    async def metrics_page(self) -> bytes:
        await self._pages_answer.wait()
        return self.engine.metrics_page() if self._frozen is None else self._frozen[0]

    async def telemetry_page(self) -> bytes:
        await self._pages_answer.wait()
        return self.engine.telemetry_page() if self._frozen is None else self._frozen[1]

    def _wall_s(self) -> float:
        return time.time() + self._skew_s

    def _apply(self) -> None:
        """Make true what the faults say now."""
        active = self.faults.active
        skew, slow = active(ClockSkew), active(Slow)
        self._skew_s = 0.0 if skew is None else skew.seconds
        self._freeze(active(FrozenMetrics) is not None)
        if active(StaleMetrics) is None:
            self._pages_answer.set()
        else:
            self._pages_answer.clear()
        self.network.delay, self.network.loss = active(Delay), active(Loss)
        self._set_down(active(OutOfMemory) is not None or active(Restart) is not None)
        if not self._down:
            self.engine.driver.slow(1.0 if slow is None else slow.factor)
            self.engine.driver.hang(active(Hang) is not None)
        self._refuse(self._down or active(Refuse) is not None)
        self._update_machine()

    def _freeze(self, frozen: bool) -> None:
        if not frozen:
            self._frozen = None
        elif self._frozen is None:
            self._update_machine()
            self._frozen = (self.engine.metrics_page(), self.engine.telemetry_page())

    def _set_down(self, down: bool) -> None:
        """The end of the engine, or its new start."""
        if down == self._down:
            return
        self._down = down
        if down:
            self.engine.driver.kill()
            self._cut = self._loop.call_later(LAST_WORDS_S, self.network.abort)
            return
        if self._cut is not None:
            self._cut.cancel()
        self.network.abort()
        self.engine = EngineProcess(self.settings, self.traffic, self._wall_s)

    def _refuse(self, refusing: bool) -> None:
        if refusing == self.network.refusing or self._listener is None:
            return
        self.network.refusing = refusing
        if refusing:
            self._listener.close()
            self.network.close_idle()
        else:
            self._listener.open()

    def _machine_needed(self) -> NodeMachine:
        if self.machine is None:
            refuse("(node)", self.settings.name, "has no GPUs to order from without --machine")
        return self.machine

    def _start_machine(self, folder: Path) -> None:
        self.machine = NodeMachine(self.settings, folder, self.traffic)
        try:
            self.machine.update(self._loop.time(), self.engine.telemetry)
        except OSError as error:
            raise StartError(f"the machine {folder} cannot be written: {error}") from error
        self._keep_machine()

    def _keep_machine(self) -> None:
        self._machine_timer = self._loop.call_later(MACHINE_INTERVAL_S, self._keep_machine)
        self._update_machine()

    def _update_machine(self) -> None:
        """Frozen, its files stand still; what cannot be written is told once."""
        if self.machine is None or self._frozen is not None:
            return
        self.engine.driver.catch_up()
        telemetry = None if self._down else self.engine.telemetry
        readable = self.faults.active(StaleMetrics) is None
        error = ""
        try:
            self.machine.update(self._loop.time(), telemetry, readable)
        except OSError as found:
            error = f"{self.settings.machine} cannot be written: {found}"
        if error and error != self._machine_error:
            log.warning("%s: %s", self.settings.name, error)
        self._machine_error = error
