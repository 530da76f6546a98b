"""NVML from a distance: readers in processes of their own, under a watchdog, and what they last
said. Nothing that NVML does can stop or end the process that asks here.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import math
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from isocost.model import GpuSample
from isocost.telemetry.nvml.health import health_signals
from isocost.telemetry.nvml.messages import HEADER, SCANNING
from isocost.telemetry.nvml.sample import (
    GpuCondition,
    GpuIdentity,
    GpuLoad,
    Item,
    Round,
    aged,
    gpu_sample,
)

#: Utilisation and memory change with every step of an engine, the rest in seconds at most.
LOAD_INTERVAL_S = 0.2
CONDITION_INTERVAL_S = 1.0
#: Rounds without a new one for this long make values stale: a few missed ones.
LOAD_FRESH_S = 1.0
CONDITION_FRESH_S = 3.0
#: A call that takes longer hangs. Of the slow loop's a GPU's PCIe throughput takes 40 ms, so that
#: 16 GPUs are read in under a second.
LOAD_PATIENCE_S = 2.0
CONDITION_PATIENCE_S = 10.0
#: Initialising takes seconds where the driver wakes eight GPUs for it.
SCAN_PATIENCE_S = 60.0
#: A GPU or a slice that came shows after this, one that went at once. Not more often: for that NVML
#: is initialised again.
RESCAN_S = 30.0
#: Between the end of a reader and the next one: twice as long each time, until one has lived.
BACKOFF_MIN_S = 0.5
BACKOFF_MAX_S = 30.0
#: An agent that ends waits so long for a reader that it killed.
KILL_PATIENCE_S = 1.0
#: Xids that nobody has asked for; the oldest go first.
MAX_XIDS = 1024

_CHILD = "isocost.telemetry.nvml.child"

Dataclass = TypeVar("Dataclass")

log = logging.getLogger(__name__)


class NvmlProcess(Generic[Item]):
    """One reader's process: ``run`` keeps one alive, ``latest`` is what was last heard."""

    def __init__(
        self,
        loop: str,
        interval_s: float,
        fresh_s: float,
        patience_s: float,
        rescan_s: float = RESCAN_S,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._arguments = ("--interval-s", f"{interval_s}", "--rescan-s", f"{rescan_s}")
        self._fresh_s = fresh_s
        self._patience_s = patience_s
        self._environment = environment
        self._clock = clock
        self._round: Round[Item] | None = None
        self._xids: collections.deque[tuple[str, int]] = collections.deque(maxlen=MAX_XIDS)
        self._told: str | None = None
        self._alive = False
        #: Set by the first round.
        self.heard = asyncio.Event()
        #: The process now running, and how many were started.
        self.pid: int | None = None
        self.starts = 0

    def latest(self) -> Round[Item] | None:
        """The last round with ages as of now; None before the first. Without a living reader every
        value is stale.
        """
        return None if self._round is None else self.age(self._round)

    def find(self, uuid: str) -> Item | None:
        """A GPU as it was in the last round: for ``age``."""
        gpus = self._round.gpus if self._round is not None else ()
        return next((gpu for gpu in gpus if gpu.identity.uuid == uuid), None)

    def age(self, value: Dataclass) -> Dataclass:
        """What was made of the last round, with the ages and states of now."""
        if self._round is None:
            return value
        fresh_s = self._fresh_s if self._alive else -1.0
        aged_value: Dataclass = aged(value, self.round_age_s, fresh_s)
        return aged_value

    @property
    def round_age_s(self) -> float:
        """Since the last round; infinite before the first."""
        return math.inf if self._round is None else max(self._clock() - self._round.taken_s, 0.0)

    @property
    def fresh(self) -> bool:
        """The reader lives, and its last round is not old."""
        return self._alive and self.round_age_s <= self._fresh_s

    def take_xids(self) -> list[tuple[str, int]]:
        """(UUID, Xid) of all since the last time."""
        taken = list(self._xids)
        self._xids.clear()
        return taken

    async def run(self) -> None:
        """Until cancelled. At most one process at a time, also where one cannot be killed."""
        backoff_s = BACKOFF_MIN_S
        while True:
            started_s = self._clock()
            await self._live()
            if self._clock() - started_s > BACKOFF_MAX_S:
                backoff_s = BACKOFF_MIN_S
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    async def _live(self) -> None:
        """One process from start to end."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _CHILD, self._loop, *self._arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env=self._environment,
                # A Ctrl-C is for the agent, which then ends this process.
                start_new_session=True,
            )
        except OSError as error:
            self._tell(f"the {self._loop} reader did not start: {error}")
            return
        assert process.stdout is not None
        self.pid, self.starts = process.pid, self.starts + 1
        try:
            reason = await self._listen(process.stdout)
            self._alive = False
            self._tell(f"the {self._loop} reader {reason}")
            _kill(process)
            # Inside a driver that hangs it ends when the driver lets it go: there must not be a
            # second one until then.
            await process.wait()
        except asyncio.CancelledError:
            _kill(process)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILL_PATIENCE_S):
                    await process.wait()
            raise
        finally:
            self._alive, self.pid = False, None

    async def _listen(self, pipe: asyncio.StreamReader) -> str:
        """Take its rounds; why there are no more."""
        patience_s = SCAN_PATIENCE_S
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    (length,) = HEADER.unpack(await pipe.readexactly(HEADER.size))
                    message = pickle.loads(await pipe.readexactly(length))
            except TimeoutError:
                return f"hangs: no word for {patience_s:g} s"
            except asyncio.IncompleteReadError:
                return "died"
            patience_s = SCAN_PATIENCE_S if message == SCANNING else self._patience_s
            if not isinstance(message, Round):
                continue
            self._round, self._alive = message, True
            self.heard.set()
            self._xids.extend(message.xids)
            self._tell(message.error)

    def _tell(self, error: str) -> None:
        """Log what is wrong when it changes, and that it is over."""
        if error == (self._told or ""):
            return
        if error:
            log.warning("no GPU telemetry: %s", error)
        else:
            log.info("the %s reader reads the GPUs", self._loop)
        self._told = error


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU or MIG slice as known now; ``condition`` None: it was not read yet."""

    load: GpuLoad
    condition: GpuCondition | None

    @property
    def identity(self) -> GpuIdentity:
        return self.load.identity

    @property
    def lost(self) -> bool:
        return self.load.lost or (self.condition is not None and self.condition.lost)


class Nvml:
    """The machine's GPUs by both loops. Each has its own process, so that neither a call that
    takes 20 ms nor one that hangs delays the other loop.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.load: NvmlProcess[GpuLoad] = NvmlProcess(
            "load", LOAD_INTERVAL_S, LOAD_FRESH_S, LOAD_PATIENCE_S, environment=environment
        )
        self.condition: NvmlProcess[GpuCondition] = NvmlProcess(
            "condition",
            CONDITION_INTERVAL_S,
            CONDITION_FRESH_S,
            CONDITION_PATIENCE_S,
            environment=environment,
        )

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.load.run())
            group.create_task(self.condition.run())

    async def heard(self) -> None:
        """Wait until both loops were read once."""
        await self.load.heard.wait()
        await self.condition.heard.wait()

    def sample(self, uuid: str) -> GpuSample:
        """What an agent reports of a GPU or MIG slice: nothing known where NVML does not list it.
        It ages only what it needs, which is a small part of a GPU's signals.
        """
        load = self.load.find(uuid)
        if load is None:
            return GpuSample(uuid)
        sample = self.load.age(gpu_sample(load, None))
        condition = self.condition.find(uuid)
        if condition is None:
            return dataclasses.replace(sample, lost=load.lost)
        slow = self.condition.age(gpu_sample(load, condition))
        return dataclasses.replace(
            sample,
            pcie_bytes_per_s=slow.pcie_bytes_per_s,
            nvlink_active_fraction=slow.nvlink_active_fraction,
            lost=load.lost or condition.lost,
            health=health_signals(condition, self.condition.fresh),
            health_age_s=self.condition.round_age_s,
        )

    def gpus(self) -> tuple[Gpu, ...]:
        """All that the fast loop lists, matched by UUID."""
        loads, conditions = self.load.latest(), self.condition.latest()
        by_uuid = {gpu.identity.uuid: gpu for gpu in conditions.gpus} if conditions else {}
        return tuple(
            Gpu(load, by_uuid.get(load.identity.uuid)) for load in (loads.gpus if loads else ())
        )

    def take_xids(self) -> list[tuple[str, int]]:
        """(UUID, Xid) of all since the last time."""
        return self.condition.take_xids()
