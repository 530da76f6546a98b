"""Names in node addresses, resolved beside the ticks: a name that fails keeps its last address."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass

from isocost.discovery.address import canonical, is_ip, split
from isocost.discovery.resolver import Answer, Resolver
from isocost.errors import ResolveError
from isocost.output import named

#: A name is asked for again when its TTL is over, but not more often than this: 10,000 names are
#: then 1,000 questions a second at most. No TTL is believed for longer than the other.
MIN_TTL_S, MAX_TTL_S = 10.0, 300.0
#: After a failure: at once, so that a start before DNS costs little, then ever later.
RETRY_S, MAX_RETRY_S = 1.0, 30.0
#: Each time is shortened by up to this part, so that names do not come due together.
_JITTER = 0.2
#: So many questions are open at once: a resolver takes no harm from them.
_AT_ONCE = 32

log = logging.getLogger(__name__)

LookUp = Callable[[str], Awaitable[Answer]]


@dataclass(slots=True)
class _Name:
    """``ip`` None: it never had an answer. ``error`` None: its last question had one."""

    ip: str | None = None
    error: str | None = None
    failures: int = 0
    due_s: float = -math.inf
    #: A question is open.
    asked: bool = False

    @property
    def tried(self) -> bool:
        return self.ip is not None or self.error is not None


class Names:
    """Addresses of the names that are wanted. IP addresses are never looked up."""

    def __init__(self, look_up: LookUp | None = None, rng: random.Random | None = None) -> None:
        """``look_up``: None, by DNS and /etc/hosts."""
        self._look_up = look_up
        self._names: dict[str, _Name] = {}
        self._wanted = asyncio.Event()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._random = rng or random.Random()
        #: Another object after every answer that differs from the one before.
        self.version = object()

    def want(self, hosts: Set[str]) -> None:
        """Follow these names and no others."""
        if hosts == self._names.keys():
            return
        self._names = {host: self._names.get(host) or _Name() for host in hosts}
        self._wanted.set()

    def address(self, address: str) -> str | None:
        """HOST:PORT in Envoy's form; None: its name is not resolved, or it has no such form."""
        host, port = split(address)
        if not is_ip(address):
            name = self._names.get(host)
            if name is None or name.ip is None:
                return None
            host = name.ip
        try:
            return canonical(f"{host}:{port}")
        except ValueError:
            return None

    def error(self, address: str) -> str:
        """Why HOST:PORT has no address."""
        name = self._names.get(split(address)[0])
        if name is None or not name.tried:
            return "it is being resolved"
        return name.error or "Envoy knows no such address"

    @property
    def stale(self) -> dict[str, str]:
        """By name whose last good address is used: why there is no newer one."""
        return {
            host: name.error
            for host, name in self._names.items()
            if name.error is not None and name.ip is not None
        }

    @property
    def errors(self) -> Mapping[str, str]:
        """By name: why it has no new answer."""
        return {host: name.error for host, name in self._names.items() if name.error is not None}

    @property
    def untried(self) -> bool:
        """Is there a name that nobody has asked for yet?"""
        return not all(name.tried for name in self._names.values())

    async def run(self) -> None:
        """Keep the names fresh until cancelled."""
        if self._look_up is not None:
            await self._refresh_forever(self._look_up)
        while not self._names:
            await self._wait(math.inf)
        resolver = Resolver()
        try:
            await self._refresh_forever(resolver.look_up)
        finally:
            await resolver.close()

    async def _refresh_forever(self, look_up: LookUp) -> None:
        # One that is not answered for long must hold up no other.
        async with asyncio.TaskGroup() as questions:
            while True:
                now_s = time.monotonic()
                if due := self._due(now_s):
                    questions.create_task(self._ask(due, look_up, now_s))
                waiting = [name.due_s for name in self._names.values() if not name.asked]
                await self._wait(min(waiting, default=math.inf) - time.monotonic())

    async def _wait(self, seconds: float) -> None:
        """Until something new is wanted, at most for so long."""
        try:
            async with asyncio.timeout(seconds if seconds < math.inf else None):
                await self._wanted.wait()
        except TimeoutError:
            return
        self._wanted.clear()

    async def refresh(self, look_up: LookUp, now_s: float) -> None:
        """Ask for all names that are due, and wait for the answers."""
        await self._ask(self._due(now_s), look_up, now_s)

    def _due(self, now_s: float) -> dict[str, _Name]:
        """Names to be asked for now, which are from here on."""
        due = {
            host: name
            for host, name in self._names.items()
            if name.due_s <= now_s and not name.asked
        }
        for name in due.values():
            name.asked = True
        return due

    async def _ask(self, due: Mapping[str, _Name], look_up: LookUp, now_s: float) -> None:
        begun_s = time.monotonic()

        async def ask(host: str, name: _Name) -> None:
            async with self._at_once:
                try:
                    answer: Answer | str = await look_up(host)
                except ResolveError as error:
                    answer = str(error)
                except Exception as error:
                    # Whatever a name server answers, it must not end the control plane.
                    log.exception("the name %s could not be resolved", host)
                    answer = repr(error)
            name.asked = False
            answered_s = now_s + time.monotonic() - begun_s
            if isinstance(answer, str):
                self._failed(name, answer, answered_s)
            else:
                self._answered(host, name, answer, answered_s)

        before = set(self.errors)
        await asyncio.gather(*(ask(host, name) for host, name in due.items()))
        self._log(before)
        # The next ones are due at other times now.
        self._wanted.set()

    def _log(self, before: Set[str]) -> None:
        errors = self.errors
        if new := errors.keys() - before:
            log.warning(
                "names that cannot be resolved, a last good address stays: %s (%s)",
                named(sorted(new)),
                errors[min(new)],
            )
        if before - errors.keys():
            log.info(
                "names that are no longer unresolved: %s", named(sorted(before - errors.keys()))
            )

    def _answered(self, host: str, name: _Name, answer: Answer, now_s: float) -> None:
        name.due_s = now_s + self._jittered(min(max(answer.ttl_s, MIN_TTL_S), MAX_TTL_S))
        if name.error is not None:
            self.version = object()
        name.error, name.failures = None, 0
        # One that is still among the answers has the connections and what was learned of it.
        if name.ip not in answer.ips:
            if name.ip is not None:
                log.info("the name %s moved from %s to %s", host, name.ip, answer.ips[0])
            name.ip = answer.ips[0]
            self.version = object()

    def _failed(self, name: _Name, error: str, now_s: float) -> None:
        name.due_s = now_s + self._jittered(min(RETRY_S * 2.0**name.failures, MAX_RETRY_S))
        name.failures += 1
        if name.error is None:
            self.version = object()
        name.error = error

    def _jittered(self, seconds: float) -> float:
        return seconds * (1.0 - _JITTER * self._random.random())
