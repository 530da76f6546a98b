"""The nodes that Consul lists: one service, followed by blocking queries."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from isocost.config_consul import ConsulDiscoverySettings
from isocost.discovery.consul_client import ConsulClient, HealthAnswer
from isocost.discovery.consul_listing import ListingReader
from isocost.discovery.listing import Listing, Source
from isocost.discovery.retry import Retry
from isocost.errors import DiscoveryError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a watch waits, in seconds."""

    #: Consul answers after this long although nothing changed. A connection that is dead and does
    #: not say so is found by then; the load of a fleet that rests is one answer in this time.
    wait_s: float = 30.0
    #: An answer takes at most this long, without the waiting: Consul adds up to a sixteenth to
    #: that. Twice what a Consul was seen to take that was thought to be down.
    answer_s: float = 10.0
    #: From one question to the next after an answer with news: what a change that comes just
    #: behind another one waits for.
    news_s: float = 0.25
    #: After one without news that came early: its index moves for reasons that are none of ours.
    #: No change may wait for a second.
    no_news_s: float = 0.5
    #: So many times as long as an answer took to be read: of ten thousand nodes that is a third of
    #: a second, which the ticks must not pay for again and again.
    reading_factor: float = 4.0
    #: After errors: the first wait, and the longest. A Consul that returns is noticed by then.
    retry_least_s: float = 0.5
    retry_most_s: float = 10.0

    @property
    def blocking_timeout_s(self) -> float:
        return self.wait_s + self.wait_s / 16 + self.answer_s


class ConsulWatch:
    """``source`` is what Consul said last; ``run`` keeps it current. ``clock`` is monotonic.

    The index is Consul's own matter: it may go back, move without a change, or be missing, so
    only answers are compared. None is read from a follower or from an agent's cache if we have a
    say in it; one that has lost nodes may come from there all the same, so it counts after a
    consistent read has said so too.
    """

    def __init__(
        self,
        settings: ConsulDiscoverySettings,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        pace: Pace = Pace(),
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._pace = pace
        self._retry = Retry(pace.retry_least_s, pace.retry_most_s, rng or random.Random())
        self._reader = ListingReader()
        self._source = Source("consul", None, clock())
        #: How long the last answer took to be read, once it was there.
        self._reading_s = 0.0
        #: Of the last answer that had one, of this connection or another.
        self._index = 0
        self._resets = 0

    @property
    def source(self) -> Source:
        return self._source

    async def run(self) -> None:
        """Follow the service until cancelled, whatever Consul does."""
        while True:
            try:
                # Anew after an error: another connection, other certificates, and no index.
                async with ConsulClient(self._settings, connections=1) as client:
                    await self._follow(client)
            except DiscoveryError as error:
                self._failed(str(error))
            except Exception as error:
                # Whatever Consul answers, it must not end the control plane.
                log.exception("an answer of Consul could not be read")
                self._failed(repr(error))
            await asyncio.sleep(self._retry.next_s())

    async def _follow(self, client: ConsulClient) -> None:
        """DiscoveryError ends it."""
        index = 0
        while True:
            asked_s = self._clock()
            answer, listing = await self._read(client, index)
            if self._lost_nodes(listing):
                answer, listing = await self._read(client, consistent=True)
                if answer.filtered and self._lost_nodes(listing):
                    raise DiscoveryError("the token may not read all instances of the service")
            # Followers that lag are behind by less; a Consul without its data begins near 1.
            if 0 < answer.index < self._index / 2:
                self._resets += 1
            self._index = answer.index or self._index
            news = self._take(listing)
            # One that went back would make us wait for what has happened already.
            index = answer.index if answer.index >= index else 0
            pause_s = self._pace.news_s if news else self._pace.no_news_s
            pause_s = max(pause_s, self._pace.reading_factor * self._reading_s)
            await asyncio.sleep(max(asked_s + pause_s - self._clock(), 0.0))

    async def _read(
        self, client: ConsulClient, index: int = 0, consistent: bool = False
    ) -> tuple[HealthAnswer, Listing]:
        pace = self._pace
        answer = await client.health(
            pace.blocking_timeout_s if index else pace.answer_s,
            index,
            pace.wait_s,
            self._settings.datacenter,
            consistent,
        )
        begin_s = self._clock()
        # Thousands of entries take longer than a tick may be late.
        listing = await asyncio.to_thread(self._reader.read, answer.body)
        self._reading_s = self._clock() - begin_s
        return answer, listing

    def _lost_nodes(self, listing: Listing) -> bool:
        held = self._source.listing
        if held is None:
            return not listing.nodes
        names = {listed.node.name for listed in listing.nodes}
        return any(listed.node.name not in names for listed in held.nodes)

    def _take(self, listing: Listing) -> bool:
        """Is it another one than before?"""
        before = self._source
        news = listing != before.listing
        self._source = Source(
            before.name,
            listing if news else before.listing,
            self._clock(),
            resets=self._resets,
        )
        self._retry.succeeded()
        if before.error is not None:
            log.info("Consul answers again")
        if news:
            self._tell(listing, before.listing)
        return news

    def _tell(self, listing: Listing, before: Listing | None) -> None:
        if before is None or len(listing.nodes) != len(before.nodes):
            log.info("Consul lists %d nodes", len(listing.nodes))
        if listing.refused != (before.refused if before else ()):
            log.warning("Consul: refused: %s", "; ".join(listing.refused) or "nothing any more")

    def _failed(self, reason: str) -> None:
        if self._source.error is None:
            stays = "" if self._source.listing is None else ", its last list stays"
            log.warning("Consul does not answer%s: %s", stays, reason)
        self._source = replace(self._source, error=reason)
