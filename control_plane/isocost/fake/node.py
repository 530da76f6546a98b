"""One fake node behind its interface: an engine, its pages, its network, and the faults of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

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
from isocost.fake.settings import FakeNodeSettings

#: A dying engine has so long to tell the open requests; then their connections are cut.
LAST_WORDS_S = 0.2


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
        self.settings = settings
        self.engine = EngineProcess(settings, self._wall_s)
        self.network = Network(f"{settings.seed}/{settings.name}/network")
        self.faults = FaultControl(self._apply)

    async def listen(self, handler: Callable[[], asyncio.Protocol]) -> int:
        """Serve with ``handler`` for each connection; returns the port. StartError: it is taken."""
        settings = self.settings
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

    def _freeze(self, frozen: bool) -> None:
        if not frozen:
            self._frozen = None
        elif self._frozen is None:
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
        self.engine = EngineProcess(self.settings, self._wall_s)

    def _refuse(self, refusing: bool) -> None:
        if refusing == self.network.refusing or self._listener is None:
            return
        self.network.refusing = refusing
        if refusing:
            self._listener.close()
            self.network.close_idle()
        else:
            self._listener.open()
