"""How long a node is out, and the trial that ends it. Times are monotonic seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isocost.config import StateSettings

#: The length of an ejection doubles no more often than this; any sensible limit comes sooner.
_MOST_DOUBLINGS = 30

#: A trial that nothing is known of gets its few requests again after this many times the time in
#: which a node without progress shows: by then the first ones would have failed it.
_REFILL = 2.0


@dataclass(frozen=True, slots=True)
class Ejections:
    """What is remembered of a node's ejections. ``pending``: it has not passed its trial yet."""

    count: int = 0
    until_s: float = -math.inf
    pending: bool = False


NONE = Ejections()


@dataclass(frozen=True, slots=True)
class Served:
    """Requests of a node so far: started, answered well, failed."""

    started: int = 0
    good: int = 0
    failed: int = 0


NOTHING_SERVED = Served()


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial since ``since_s``; ``before`` is what the node had served then."""

    since_s: float
    before: Served


def ejected(past: Ejections, now_s: float, settings: StateSettings) -> Ejections:
    """The node is out from now on, for twice as long as the last time unless that is long ago."""
    count = 1 if forgotten(past, now_s, settings) else past.count + 1
    return Ejections(count, now_s + length_s(count, settings), pending=True)


def forgotten(past: Ejections, now_s: float, settings: StateSettings) -> bool:
    return now_s - past.until_s > settings.eject_forget_s


def length_s(count: int, settings: StateSettings) -> float:
    """How long the ejection lasts that is the ``count``-th in a row."""
    length_s = settings.eject_base_s * 2.0 ** min(count - 1, _MOST_DOUBLINGS)
    return min(length_s, settings.eject_max_s)


def trial_failed(trial: Trial, served: Served) -> bool:
    return served.failed > trial.before.failed


def trial_passed(trial: Trial, served: Served, now_s: float, settings: StateSettings) -> bool:
    """Good answers enough, or no failure for long: without traffic nothing can be shown."""
    if trial_failed(trial, served):
        return False
    good = served.good - trial.before.good
    return good >= settings.trial_successes or now_s - trial.since_s >= settings.trial_quiet_s


def trial_open(trial: Trial, served: Served, now_s: float, settings: StateSettings) -> bool:
    """May the node get requests now, or must those that it got show their outcome first?"""
    refills = math.floor((now_s - trial.since_s) / (_REFILL * settings.no_progress_s))
    return served.started - trial.before.started < settings.trial_requests * (1 + refills)


def trial_share(started_per_s: float, settings: StateSettings) -> float:
    """The part of its share for a node on trial where a node gets ``started_per_s`` requests.

    However much traffic there is: no more than its few requests in a second, because what it got
    is only known some tenths of a second later.
    """
    if started_per_s <= 0.0:
        return settings.trial_share
    return min(settings.trial_share, settings.trial_requests / started_per_s)
