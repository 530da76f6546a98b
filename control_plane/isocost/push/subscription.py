"""One client's subscription to one type: when is something due, and what did the client say."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from isocost.push.request import Request
from isocost.push.snapshot import TypeResources

#: The name that subscribes to everything, for types that allow it.
WILDCARD = "*"


class Outcome(enum.Enum):
    """What a request turned out to be."""

    SUBSCRIBED = "subscribed"
    ACKED = "acked"
    NACKED = "nacked"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """What is known of a client and one type. Versions are None until there was one."""

    names: tuple[str, ...]
    wildcard: bool
    sent_version: str | None
    acked_version: str | None
    refused_version: str | None
    error: str | None
    nacks: int
    outstanding: bool


class Subscription:
    """The protocol for one type on one stream, without I/O.

    At most one response is outstanding; what is published meanwhile is not queued, the newest is
    due once the client has answered. A refused version is parked: it is not sent again until the
    content changes or the client asks for other names.
    """

    def __init__(self, first: Request, *, wildcard_allowed: bool) -> None:
        # The first request may carry nonce, version and error of a former stream: they mean
        # nothing here, and the client gets what is current.
        self._wildcard_allowed = wildcard_allowed
        self._names: frozenset[str] = frozenset()
        self._wildcard = False
        # An empty list means everything, until the client has once named something.
        self._named = not wildcard_allowed
        self._nonce = ""
        self._outstanding = False
        self._asked = True
        self._refresh = False
        self._sent_version: str | None = None
        self._acked_version: str | None = None
        self._refused_version: str | None = None
        self._error: str | None = None
        self._nacks = 0
        self._rename(first.names)

    @property
    def outstanding(self) -> bool:
        return self._outstanding

    @property
    def sent_version(self) -> str | None:
        return self._sent_version

    def on_request(self, request: Request) -> Outcome:
        """Take a request after the first."""
        if request.nonce and self._nonce and request.nonce != self._nonce:
            # Crossed with a newer response, whose own answer will name all that is wanted.
            return Outcome.STALE
        self._rename(request.names)
        if not request.nonce or request.nonce != self._nonce:
            return Outcome.SUBSCRIBED
        if request.error is not None:
            self._outstanding = False
            self._refused_version = self._sent_version
            self._error = request.error
            self._nacks += 1
            return Outcome.NACKED
        if not self._outstanding:
            return Outcome.SUBSCRIBED
        self._outstanding = False
        self._acked_version = self._sent_version
        self._refused_version = self._error = None
        return Outcome.ACKED

    def refresh(self) -> None:
        """Send once more even with equal content: the client forgot what it had."""
        self._refresh = True

    def wants(self, resources: TypeResources) -> bool:
        """Whether the client lacks something, be a response outstanding or not."""
        if resources.version == self._refused_version and not self._asked:
            return False
        due = self._asked or self._refresh or resources.version != self._sent_version
        return due and (self._wildcard or any(name in resources.resources for name in self._names))

    def selection(self, resources: TypeResources) -> tuple[str, ...]:
        """The subscribed names that exist; an unknown one does not hold back the others."""
        if self._wildcard:
            return tuple(resources.resources)
        return tuple(name for name in resources.resources if name in self._names)

    def sent(self, version: str, nonce: str) -> None:
        """A response goes out; the next one waits for its answer."""
        self._nonce = nonce
        self._outstanding = True
        self._sent_version = version
        self._asked = self._refresh = False

    def status(self) -> SubscriptionStatus:
        return SubscriptionStatus(
            names=tuple(sorted(self._names)),
            wildcard=self._wildcard,
            sent_version=self._sent_version,
            acked_version=self._acked_version,
            refused_version=self._refused_version,
            error=self._error,
            nacks=self._nacks,
            outstanding=self._outstanding,
        )

    def _rename(self, names: tuple[str, ...]) -> None:
        self._named = self._named or bool(names)
        wildcard = self._wildcard_allowed and (WILDCARD in names or not self._named)
        wanted = frozenset(names) - {WILDCARD} if wildcard else frozenset(names)
        # Giving up names needs no answer; new ones do, also for content that was refused.
        if (wildcard and not self._wildcard) or (not wildcard and wanted - self._names):
            self._asked = True
        self._wildcard = wildcard
        self._names = wanted
