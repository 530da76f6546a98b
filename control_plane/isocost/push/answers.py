"""What a client said of the responses for one type: the same rules in both variants of xDS."""

from __future__ import annotations

import enum
from dataclasses import dataclass


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


class Answers:
    """Tells ACK, NACK and stale nonces apart. At most one response waits for its answer."""

    def __init__(self) -> None:
        self._nonce = ""
        self._outstanding = False
        self._sent_version: str | None = None
        self._acked_version: str | None = None
        self._refused_version: str | None = None
        self._error: str | None = None
        self._nacks = 0

    @property
    def outstanding(self) -> bool:
        return self._outstanding

    @property
    def refused(self) -> bool:
        """Something that the client refused is held back, and no response is out."""
        return not self._outstanding and self._refused_version is not None

    def sent(self, version: str, nonce: str) -> None:
        """A response goes out; the next one waits for its answer."""
        self._nonce = nonce
        self._outstanding = True
        self._sent_version = version

    def take(self, nonce: str, error: str | None) -> Outcome:
        """What a request after the first says of the last response."""
        # Before the first response a nonce is of a former stream, and says nothing.
        if not nonce or not self._nonce:
            return Outcome.SUBSCRIBED
        if nonce != self._nonce:
            return Outcome.STALE
        if error is not None:
            self._outstanding = False
            self._refused_version = self._sent_version
            self._error = error
            self._nacks += 1
            return Outcome.NACKED
        if not self._outstanding:
            return Outcome.SUBSCRIBED
        self._outstanding = False
        self._acked_version = self._sent_version
        return Outcome.ACKED

    def forget_refusal(self) -> None:
        """Nothing that was refused is held back any more."""
        self._refused_version = self._error = None

    def status(self, names: frozenset[str], wildcard: bool) -> SubscriptionStatus:
        return SubscriptionStatus(
            names=tuple(sorted(names)),
            wildcard=wildcard,
            sent_version=self._sent_version,
            acked_version=self._acked_version,
            refused_version=self._refused_version,
            error=self._error,
            nacks=self._nacks,
            outstanding=self._outstanding,
        )
