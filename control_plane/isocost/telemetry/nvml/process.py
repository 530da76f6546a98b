"""NVML from a distance: readers in processes of their own, under a watchdog, and what they last
said. Nothing that NVML does can stop or end the process that asks here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from isocost.model import GpuSample, HealthSignals, Signal, Xid
from isocost.telemetry.nvml.health import health_signals
from isocost.telemetry.nvml.hung_gpus import HungGpus
from isocost.telemetry.nvml.messages import HEADER, READING, RETRY, SCAN, SCANNING, receive
from isocost.telemetry.nvml.rises import Rises
from isocost.telemetry.nvml.rounds import condition_round, load_round
from isocost.telemetry.nvml.sample import (
    GpuCondition,
    GpuIdentity,
    GpuLoad,
    Item,
    Round,
    aged,
    condition_signals,
    load_signals,
    older,
)
from isocost.telemetry.nvml.trouble import Trouble
from isocost.telemetry.nvml.xids import RecentXids

#: Utilisation and memory change with every step of an engine.
LOAD_INTERVAL_S = 0.2
#: With FRESH_S, so that what happens to a GPU shows within a second.
CONDITION_INTERVAL_S = 0.5
#: Without a new round for this long values are stale. A round of the slow loop takes 90 ms, so that
#: values are 0.6 s old before the next one is there.
LOAD_FRESH_S = 0.75
CONDITION_FRESH_S = 0.75
#: A call that takes longer hangs. The slow loop's first round waits 40 ms for each GPU's PCIe
#: throughput: less than a second for 16 GPUs.
LOAD_PATIENCE_S = 2.0
CONDITION_PATIENCE_S = 3.0
#: Initialising takes seconds where the driver wakes eight GPUs for it.
SCAN_PATIENCE_S = 60.0
#: A GPU or a slice that was asked for and is not listed is looked for so often. Not more often: for
#: that NVML is initialised again, and meanwhile nothing is read.
RESCAN_S = 30.0
#: Between the end of a reader and the next one: twice as long each time, until one has lived.
BACKOFF_MIN_S = 0.5
BACKOFF_MAX_S = 30.0
#: An agent that ends waits so long for a reader that it killed.
KILL_PATIENCE_S = 1.0

_CHILD = "isocost.telemetry.nvml.child"

Dataclass = TypeVar("Dataclass")


class NvmlProcess(Generic[Item]):
    """One reader's process: ``run`` keeps one alive, ``latest`` is what was last heard. ``decode``
    makes a round of what it sends.
    """

    def __init__(
        self,
        loop: str,
        decode: Callable[[dict[str, Any]], Round[Item]],
        interval_s: float,
        fresh_s: float,
        patience_s: float,
        rescan_s: float = RESCAN_S,
        trouble: Trouble | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._decode: Callable[[dict[str, Any]], Round[Item]] = decode
        self._arguments = (loop, f"{interval_s}", f"{rescan_s}", f"{patience_s}")
        self._fresh_s = fresh_s
        self._patience_s = patience_s
        self._trouble = trouble or Trouble()
        self._environment = environment
        self._clock = clock
        self._round: Round[Item] | None = None
        self._by_uuid: dict[str, Item] = {}
        #: By UUID, as of the last round.
        self._indices: dict[str, int] = {}
        self._hung: HungGpus[Item] = HungGpus()
        #: The last round was of all that NVML lists.
        self._complete = False
        #: How often a GPU did not answer.
        self._held_up = 0
        self._input: asyncio.StreamWriter | None = None
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
        """A GPU as it was in the last round."""
        return self._by_uuid.get(uuid)

    def age(self, value: Dataclass) -> Dataclass:
        """What was made of the last round, with the ages and states of now."""
        aged_value: Dataclass = aged(value, self.round_age_s, self.fresh)
        return aged_value

    @property
    def round_age_s(self) -> float:
        """Since the last round; infinite before the first."""
        return math.inf if self._round is None else max(self._clock() - self._round.taken_s, 0.0)

    @property
    def fresh(self) -> bool:
        """The reader lives, and its last round is not old."""
        return self._alive and self.round_age_s <= self._fresh_s

    @property
    def answers(self) -> bool:
        """NVML lists the machine's GPUs now, all of them: one that hangs may be any."""
        return self._complete and self.fresh

    def look_again(self) -> None:
        """Let the reader list the GPUs anew."""
        if self._input is not None:
            self._input.write(SCAN)

    async def run(self) -> None:
        """Until cancelled. At most one process at a time, also where one cannot be killed."""
        backoff_s = BACKOFF_MIN_S
        while True:
            started_s, held_up = self._clock(), self._held_up
            await self._live()
            # One that a GPU held up goes on with the others.
            if self._clock() - started_s > BACKOFF_MAX_S or self._held_up > held_up:
                backoff_s = BACKOFF_MIN_S
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    async def _live(self) -> None:
        """One process from start to end."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _CHILD, *self._arguments),
                ",".join(map(str, self._hung.skipped)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=self._environment,
                # A Ctrl-C is for the agent, which then ends this process.
                start_new_session=True,
            )
        except OSError as error:
            self._tell(f"the {self._loop} reader did not start: {error}")
            return
        assert process.stdin is not None and process.stdout is not None
        self.pid, self.starts = process.pid, self.starts + 1
        self._input = process.stdin
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
            self._alive, self.pid, self._input = False, None, None
            process.stdin.close()

    async def _listen(self, pipe: asyncio.StreamReader) -> str:
        """Take its rounds; why there are no more."""
        scanning = True
        while True:
            # It tells by itself of a GPU that does not answer, unless even that hangs.
            patience_s = SCAN_PATIENCE_S if scanning else 2 * self._patience_s
            try:
                async with asyncio.timeout(patience_s):
                    (length,) = HEADER.unpack(await pipe.readexactly(HEADER.size))
                    message = receive(await pipe.readexactly(length))
            except TimeoutError:
                doing = " while NVML is initialised" if scanning else ""
                return f"hangs: no word for {patience_s:g} s{doing}"
            except asyncio.IncompleteReadError:
                return "died"
            scanning = message == SCANNING
            if message in (SCANNING, READING):
                continue
            if isinstance(message, tuple):
                return self._leave_out(message[1])
            self._take(message)
            if self._hung.retry(self._clock()) and self._input is not None:
                self._input.write(RETRY)

    def _take(self, message: dict[str, Any]) -> None:
        """A round."""
        self._indices = {gpu["identity"][0]: gpu["index"] for gpu in message["gpus"]}
        self._round = self._hung.completed(self._decode(message), self._indices, message["skipped"])
        self._complete = not self._round.error and not message["skipped"]
        self._alive = True
        self._by_uuid = {gpu.identity.uuid: gpu for gpu in self._round.gpus}
        self.heard.set()
        self._tell(self._round.error)
        for warning in self._round.warnings:
            self._trouble.warn(warning)

    def _leave_out(self, index: int) -> str:
        """A GPU does not answer: the next reader reads the others."""
        self._held_up += 1
        last = {
            uuid: item for uuid, item in self._by_uuid.items() if self._indices.get(uuid) == index
        }
        taken_s = 0.0 if self._round is None else self._round.taken_s
        wait_s = self._hung.add(index, last, taken_s, self._clock())
        names = ", ".join(sorted(last)) or f"GPU {index}"
        return f"hangs: no answer from {names}, which is left out for {wait_s:g} s"

    def _tell(self, error: str) -> None:
        self._trouble.tell(self._loop, error)


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU or MIG slice as known now; ``condition`` None: it was not read yet."""

    load: GpuLoad
    condition: GpuCondition | None
    xids: tuple[Xid, ...] = ()

    @property
    def identity(self) -> GpuIdentity:
        return self.load.identity

    @property
    def lost(self) -> bool:
        return self.load.lost or (self.condition is not None and self.condition.lost)


def _older(signals: dict[str, Signal], loop: NvmlProcess[Any]) -> dict[str, Any]:
    age_s, fresh = loop.round_age_s, loop.fresh
    return {name: older(signal, age_s, fresh) for name, signal in signals.items()}


class Nvml:
    """The machine's GPUs by both loops. Each has its own process, so that neither a call that
    takes 20 ms nor one that hangs delays the other loop.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._rises = Rises()
        self._xids = RecentXids()
        self._looked_s: float | None = None
        #: Made of the last round for ``sample``, which is asked more often.
        self._slow: dict[str, dict[str, Signal]] = {}
        self._health: dict[tuple[str, bool, tuple[Xid, ...]], HealthSignals] = {}
        trouble = Trouble()
        self.load: NvmlProcess[GpuLoad] = NvmlProcess(
            "load",
            load_round,
            LOAD_INTERVAL_S,
            LOAD_FRESH_S,
            LOAD_PATIENCE_S,
            trouble=trouble,
            environment=environment,
            clock=clock,
        )
        self.condition: NvmlProcess[GpuCondition] = NvmlProcess(
            "condition",
            self._take_condition,
            CONDITION_INTERVAL_S,
            CONDITION_FRESH_S,
            CONDITION_PATIENCE_S,
            trouble=trouble,
            environment=environment,
            clock=clock,
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
        """What an agent reports of a GPU or MIG slice: nothing known where NVML does not list it;
        then it is looked for. It ages only what it needs, which is a small part of a GPU's signals.
        """
        load = self.load.find(uuid)
        if load is None:
            self._look_for_it()
            return GpuSample(uuid)
        fast = _older(load_signals(load), self.load)
        condition = self.condition.find(uuid)
        if condition is None:
            return GpuSample(uuid, **fast, lost=load.lost)
        if uuid not in self._slow:
            self._slow[uuid] = condition_signals(condition)
        fresh, xids = self.condition.fresh, self.xids(uuid)
        # Xids are forgotten also while no new round comes.
        key = uuid, fresh, xids
        if key not in self._health:
            self._health[key] = health_signals(condition, fresh, xids)
        return GpuSample(
            uuid,
            **fast,
            **_older(self._slow[uuid], self.condition),
            lost=load.lost or condition.lost,
            health=self._health[key],
            health_age_s=self.condition.round_age_s,
        )

    def gpus(self) -> tuple[Gpu, ...]:
        """All that the fast loop lists, matched by UUID."""
        loads, conditions = self.load.latest(), self.condition.latest()
        by_uuid = {gpu.identity.uuid: gpu for gpu in conditions.gpus} if conditions else {}
        return tuple(
            Gpu(load, by_uuid.get(load.identity.uuid), self.xids(load.identity.uuid))
            for load in (loads.gpus if loads else ())
        )

    def xids(self, uuid: str) -> tuple[Xid, ...]:
        """Those of the last ten minutes on a GPU; on a MIG slice, those of its GPU."""
        load = self.load.find(uuid)
        gpu = uuid if load is None else load.identity.parent_uuid or uuid
        return self._xids.of(gpu, self._clock())

    def _take_condition(self, message: dict[str, Any]) -> Round[GpuCondition]:
        condition = condition_round(message, self._rises)
        for uuid, xid in condition.xids:
            self._xids.hear(uuid, xid, condition.taken_s)
        self._slow.clear()
        self._health.clear()
        return condition

    def _look_for_it(self) -> None:
        """A GPU may have come since NVML was initialised."""
        now_s = self._clock()
        if not self.load.heard.is_set():
            return
        if self._looked_s is None or now_s - self._looked_s >= RESCAN_S:
            self._looked_s = now_s
            self.load.look_again()
            self.condition.look_again()
