"""The course of a run: turn by turn, with its faults, its observations and its display."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from isocost.bench import fault_orders
from isocost.bench.access_log import AccessLog, LoggedRequest
from isocost.bench.control_plane import ControlPlane, FleetSample
from isocost.bench.gc_pause import rare_collections
from isocost.bench.observer import Observer
from isocost.bench.options import BenchOptions
from isocost.bench.processes import MachineReading
from isocost.bench.progress import Counts, Display, NodeView
from isocost.bench.replay import Replay, ReplaySettings
from isocost.bench.report import ProcessCpu
from isocost.bench.result import RequestResult
from isocost.bench.rounds import Turn
from isocost.bench.scenario import Scenario
from isocost.bench.statistics import Percentiles
from isocost.bench.watch import watched
from isocost.errors import StartError

#: A node that was away is asked this often whether it is back.
_RETRY_S = 0.2
#: Its fault's end is timed by itself, and on a busy machine it starts again late.
_GRACE_S = 5.0
#: Turns are this far apart in the numbers that tell their prompts apart: none finds another's
#: prefixes in a cache.
_TURN_SEEDS = 1_000_003


@dataclass(frozen=True, slots=True)
class Turned:
    """What one turn left behind.

    ``end_s`` and ``machine`` are as of its last answer.
    """

    turn: Turn
    results: tuple[RequestResult, ...]
    samples: tuple[FleetSample, ...]
    log: tuple[LoggedRequest, ...]
    end_s: float
    machine: MachineReading

    @property
    def whole(self) -> bool:
        """Whether no interrupt cut it short."""
        return len(self.results) == len(self.turn.slice.requests) and all(
            result.failure != "unanswered" for result in self.results
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run left behind; ``end_s`` is how far it came in the trace's time.

    ``broken`` says why a later turn could not begin; ``interrupted`` is true of that too.
    """

    turned: tuple[Turned, ...]
    interrupted: bool
    broken: str | None
    end_s: float
    machine_busy: float | None
    processes: tuple[ProcessCpu, ...]
    push_interval_ms: Percentiles
    #: Faults that could not be taken back.
    problems: tuple[str, ...]


class Course:
    """Runs the turns one after the other; :meth:`stop` ends the run with what it has."""

    def __init__(
        self,
        options: BenchOptions,
        turns: Sequence[Turn],
        scenario: Scenario | None,
        session: aiohttp.ClientSession,
    ) -> None:
        self._options = options
        self._turns = turns
        self._scenario = scenario
        self._session = session
        self._control_plane = (
            ControlPlane(session, options.control_plane) if options.control_plane else None
        )
        self._access_log = AccessLog(options.access_log) if options.access_log else None
        self._replays = [
            Replay(turn.slice.requests, self._settings(number, turn), turn.slice.start_s)
            for number, turn in enumerate(turns)
        ]
        self._problems: list[str] = []
        self._broken: str | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        for replay in self._replays:
            replay.stop()

    async def run(self, display: Display) -> Measured:
        """StartError: a node does not take its faults, and nothing has been measured yet."""
        if self._access_log is not None:
            self._access_log.skip_old()
        before = MachineReading.take()
        turned = []
        with rare_collections():
            for turn, replay in zip(self._turns, self._replays, strict=True):
                try:
                    turned.append(await self._turn(turn, replay, display))
                except StartError as error:
                    if not turned:
                        raise
                    self._broken = f"{self._name(turn)} could not begin: {error}"
                if self._problems and turn is not self._turns[-1]:
                    # The next target would meet what the last one did not.
                    self._broken = f"{self._name(turn)} left a fault behind: {self._problems[0]}"
                if self._stopped or self._broken:
                    break
        after = turned[-1].machine
        return Measured(
            turned=tuple(turned),
            interrupted=self._stopped or self._broken is not None,
            broken=self._broken,
            end_s=turned[-1].end_s,
            machine_busy=before.busy_until(after),
            processes=before.processes_until(after),
            push_interval_ms=await self._control_plane.push_interval_ms()
            if self._control_plane
            else Percentiles(),
            problems=tuple(self._problems),
        )

    async def _turn(self, turn: Turn, replay: Replay, display: Display) -> Turned:
        observer = Observer(self._access_log, self._control_plane)
        last = turn.slice is self._turns[-1].slice
        orders: fault_orders.Orders = {}
        if self._scenario and not self._stopped:
            orders = self._scenario.orders(turn.slice, last=last)
        back_s = time.monotonic()
        try:
            await fault_orders.order(self._session, orders)
            back_s = time.monotonic() + fault_orders.longest_s(orders) + _GRACE_S
            results = await self._watched(turn, replay, observer, display)
            # Waiting for nodes below is no load.
            end_s, machine = replay.now_s, MachineReading.take()
        finally:
            await self._take_back(turn, orders, back_s, display)
        ids = {result.request_id for result in results if result.request_id is not None}
        await observer.read_log_until(len(ids), ids)
        return Turned(
            turn=turn,
            results=results,
            # Later ones would stand where the next round's belong.
            samples=tuple(
                sample for sample in observer.samples if last or sample.at_s < turn.slice.end_s
            ),
            log=tuple(entry for entry in observer.log if entry.request_id in ids),
            end_s=end_s,
            machine=machine,
        )

    async def _take_back(
        self, turn: Turn, orders: fault_orders.Orders, back_s: float, display: Display
    ) -> None:
        """Clear the nodes; one that its fault keeps away is waited for, until ``back_s`` of the
        monotonic clock or an interrupt."""
        while problems := await fault_orders.clear(self._session, orders):
            if self._stopped or time.monotonic() > back_s:
                self._problems += [str(problem) for problem in problems]
                return
            waiting = f"{self._name(turn)} waiting for the end of a fault".strip()
            display.update(self._elapsed_s(), Counts.of(*self._replays), (), waiting)
            await asyncio.sleep(_RETRY_S)

    async def _watched(
        self, turn: Turn, replay: Replay, observer: Observer, display: Display
    ) -> tuple[RequestResult, ...]:
        def look() -> None:
            display.update(
                self._elapsed_s(),
                Counts.of(*self._replays),
                node_views(replay.answered, observer),
                self._name(turn),
            )

        return await watched(replay, observer, look)

    def _elapsed_s(self) -> float:
        """Since the first turn began."""
        return self._replays[0].now_s - self._turns[0].slice.start_s

    def _name(self, turn: Turn) -> str:
        if len(self._turns) == 1:
            return ""
        rounds = self._turns[-1].round + 1
        return f"round {turn.round + 1}/{rounds} {turn.target.name}"

    def _settings(self, number: int, turn: Turn) -> ReplaySettings:
        options = self._options
        return ReplaySettings(
            url=turn.target.chat_url,
            model=options.model,
            seed=options.seed + number * _TURN_SEEDS,
            max_connections=options.max_connections,
            request_timeout_s=options.request_timeout_s,
            connect_timeout_s=options.connect_timeout_s,
            headers=options.headers,
            body=options.body,
        )


def node_views(answered: Counter[str], observer: Observer) -> tuple[NodeView, ...]:
    """The nodes that the control plane shows or that have answered, by name."""
    total = answered.total()
    return tuple(
        NodeView(
            name=name,
            requests=answered[name],
            share=answered[name] / total if total else None,
            status=status,
            rack=status.rack if status else None,
        )
        for name in sorted(answered.keys() | observer.latest.keys())
        for status in (observer.latest.get(name),)
    )
