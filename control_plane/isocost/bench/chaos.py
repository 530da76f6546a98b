"""The faults of a scenario without a load: ordered, told as they come and go, taken back."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import aiohttp

from isocost.bench import fault_orders
from isocost.bench.phases import OrderedFault
from isocost.bench.scenario import Scenario
from isocost.errors import ConfigError, FieldError, NodeAwayError

#: Nodes that are started together with the command are there sooner than this.
PATIENCE_S = 30.0
#: A node that a fault keeps away starts again a little after the fault's end; and a container has
#: 10 s to stop.
_TAKE_BACK_S = 5.0
_RETRY_S = 0.2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """A fault begins, or ends, ``at_s`` after the order."""

    at_s: float
    begins: bool
    fault: OrderedFault


Tell = Callable[[Change], object]


def require_ends(scenario: Scenario, source: str) -> None:
    """ConfigError: names every fault that holds for ever."""
    endless = [
        FieldError(f"faults.{index}.end_s", None, "it is required with --repeat")
        for index, fault in enumerate(scenario.faults)
        if fault.end_s is None
    ]
    if endless:
        raise ConfigError(source, endless)


async def run_chaos(
    scenario: Scenario, tell: Tell, *, repeat: bool, patience_s: float = PATIENCE_S
) -> None:
    """Order the faults and ``tell`` of each when it begins and when it ends; return after the last
    end, or ``repeat``. Where it is cancelled, the nodes' faults are taken back.

    NodeAwayError: a node does not answer within ``patience_s`` of the start; later rounds wait for
    as long as it takes. StartError: a node does not take its faults.
    """
    async with aiohttp.ClientSession() as session:
        await _rehearse(session, scenario, patience_s)
        await _round(session, scenario, tell)
        while repeat:
            await _rehearse(session, scenario, math.inf)
            try:
                await _round(session, scenario, tell)
            except NodeAwayError as error:
                # It went away after the rehearsal.
                log.warning("waiting: %s", error)


async def _rehearse(session: aiohttp.ClientSession, scenario: Scenario, patience_s: float) -> None:
    """Wait until every node answers and has taken its faults for a try."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + patience_s
    told = ""
    while True:
        try:
            return await fault_orders.rehearse(session, scenario.rehearsal())
        except NodeAwayError as error:
            if loop.time() > end_s:
                raise
            if str(error) != told:
                told = str(error)
                log.warning("waiting: %s", told)
        await asyncio.sleep(_RETRY_S)


async def _round(session: aiohttp.ClientSession, scenario: Scenario, tell: Tell) -> None:
    """Order everything once, and follow it to its end."""
    loop = asyncio.get_running_loop()
    orders = scenario.whole()
    holding: list[OrderedFault] = []
    try:
        await fault_orders.order(session, orders)
        start_s = loop.time()
        for change in changes(scenario.ordered()):
            await asyncio.sleep(start_s + change.at_s - loop.time())
            if change.begins:
                holding.append(change.fault)
            else:
                holding.remove(change.fault)
            tell(change)
        if holding:
            await asyncio.Event().wait()
    finally:
        taken_back = await _take_back(session, orders)
        for fault in holding if taken_back else ():
            tell(Change(loop.time() - start_s, False, fault))


def changes(faults: Iterable[OrderedFault]) -> list[Change]:
    """Every begin and end by its time; of several at one time the ends come first."""
    both = []
    for fault in faults:
        both.append(Change(fault.start_s, True, fault))
        if fault.end_s is not None:
            both.append(Change(fault.end_s, False, fault))
    return sorted(both, key=lambda change: (change.at_s, change.begins))


async def _take_back(session: aiohttp.ClientSession, urls: Iterable[str]) -> bool:
    """Clear the nodes; one that is away is asked again, for a while. Whether all were cleared."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _TAKE_BACK_S
    while problems := await fault_orders.clear(session, urls):
        if loop.time() > end_s:
            for problem in problems:
                log.warning("what it was ordered may still hold: %s", problem)
            return False
        await asyncio.sleep(_RETRY_S)
    return True
