"""Which instance of its engine a node is, by what its pages say."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from isocost.config import AgentNodeSettings
from isocost.model import ABSENT, Node, Signal
from isocost.telemetry.engines.counter import fell
from isocost.telemetry.engines.page import EnginePage

_COUNTERS = ("prompt_tokens_total", "generation_tokens_total", "steps_total")

log = logging.getLogger(__name__)


class InstanceWatch:
    """``node`` is the instance that the last good page came from; None before the first.
    ``wall`` tells unix seconds.
    """

    def __init__(self, settings: AgentNodeSettings, wall: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._wall = wall
        self._seen: EnginePage | None = None
        #: What the instance's counters last said: a page may lack them for a while.
        self._counters = dict.fromkeys(_COUNTERS, ABSENT)
        self._engine_kind = ""
        self._epoch: int | None = None
        self.node: Node | None = None

    def continue_from(self, former: InstanceWatch) -> None:
        """The same engine under other settings: what tells whether it restarted goes on."""
        self._epoch = former._epoch
        self._counters = dict(former._counters)
        self._engine_kind = former._engine_kind

    def see(self, page: EnginePage | None) -> bool:
        """Take the last good page; is it another instance's than the one before?"""
        if page is None or page is self._seen:
            return False
        if page.started_unix_s is not None:
            epoch = int(page.started_unix_s)
        elif self._epoch is None:
            epoch = int(self._wall())
        elif self._restarted(page):
            epoch = max(int(self._wall()), self._epoch + 1)
        else:
            epoch = self._epoch
        self._seen = page
        anew = epoch != self._epoch
        self._remember(page, anew)
        if anew or self.node is None:
            self._epoch = epoch
            self.node = self._settings.node(epoch)
            name, instance_id = self._settings.name, self.node.instance_id
            log.info("%s is instance %s", name, instance_id, extra={"node": name})
        return anew

    def _restarted(self, page: EnginePage) -> bool:
        """Without a start time a restart shows in a counter that fell, or another engine."""
        if page.engine and self._engine_kind and page.engine != self._engine_kind:
            return True
        sample = page.sample
        return any(fell(last, getattr(sample, name)) for name, last in self._counters.items())

    def _remember(self, page: EnginePage, anew: bool) -> None:
        if page.engine:
            self._engine_kind = page.engine
        for name in _COUNTERS:
            signal: Signal = getattr(page.sample, name)
            if signal.known or anew:
                self._counters[name] = signal
