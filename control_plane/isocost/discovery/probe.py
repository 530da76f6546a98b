"""The control plane's own look at nodes that no agent speaks for: does anybody listen there?"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Set

from isocost.discovery.address import split

#: How often each address is tried, and how long it has to answer. A node that dies is out after at
#: most 5 + 3 * 1 + 2 * 1 = 10 s.
INTERVAL_S, TIMEOUT_S = 5.0, 1.0
#: Refused so often in a row, this far apart, it is unreachable: a restart of a pool takes less.
TRIES, BETWEEN_S = 3, 1.0
#: Of a large fleet each address is tried less often: connecting must not take the ticks' time.
MOST_PER_S = 200.0
#: So many are tried at once: what does not answer holds its place for 5 s.
_AT_ONCE = 256
#: Each pause is longer or shorter by up to this part: control planes do not fall into step.
_JITTER = 0.2

Connect = Callable[[str], Awaitable[bool]]


async def connect(address: str) -> bool:
    """Does somebody take a connection at IP:PORT?"""
    host, port = split(address)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.transport.abort()
    return True


class Probes:
    """Which of the wanted addresses nobody answers at."""

    def __init__(self, connect: Connect = connect, rng: random.Random | None = None) -> None:
        self._connect = connect
        self._wanted = asyncio.Event()
        self._addresses: frozenset[str] = frozenset()
        self._tried: set[str] = set()
        self._random = rng or random.Random()
        #: The same object while these are the same addresses.
        self.unreachable: frozenset[str] = frozenset()

    def want(self, addresses: Set[str]) -> None:
        """Try these and no others."""
        if addresses == self._addresses:
            return
        self._addresses = frozenset(addresses)
        self._tried &= self._addresses
        if not self.unreachable <= self._addresses:
            self.unreachable &= self._addresses
        self._wanted.set()

    async def run(self) -> None:
        """Try one address after the other until cancelled."""
        at_once = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tries:
            while True:
                if not self._addresses:
                    await self._wanted.wait()
                self._wanted.clear()
                shortest_s = 1.0 / MOST_PER_S
                usual_s = max(INTERVAL_S / max(len(self._addresses), 1), shortest_s)
                for address in self._order():
                    pause_s = usual_s if address in self._tried else shortest_s
                    self._tried.add(address)
                    await at_once.acquire()
                    attempt = tries.create_task(self.check(address))
                    attempt.add_done_callback(lambda _: at_once.release())
                    jitter = 1.0 + _JITTER * (2.0 * self._random.random() - 1.0)
                    if await self._other_wanted(pause_s * jitter):
                        break

    async def _other_wanted(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await self._wanted.wait()
        except TimeoutError:
            return False

    def _order(self) -> list[str]:
        """By chance, but new ones first: one that was dead from the start is soon known to be."""
        order = sorted(self._addresses)
        self._random.shuffle(order)
        return sorted(order, key=lambda address: address in self._tried)

    async def check(self, address: str) -> None:
        """One look at an address: a failure counts when it happens TRIES times in a row. Who is
        unreachable already needs one answer to return.
        """
        tries = 1 if address in self.unreachable else TRIES
        for attempt in range(tries):
            if attempt:
                await asyncio.sleep(BETWEEN_S)
            if await self._connect(address):
                self._note(address, reached=True)
                return
        self._note(address, reached=False)

    def _note(self, address: str, reached: bool) -> None:
        if address not in self._addresses or reached != (address in self.unreachable):
            return
        self.unreachable ^= {address}
