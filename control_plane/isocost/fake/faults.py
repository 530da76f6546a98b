"""The faults that can be ordered from a fake node: their kinds, parameters and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from isocost.fake.strict import Json, inside, integer, known_keys, number, refuse

#: Longest start, length and skew that can be ordered: a day, longer than any run.
MAX_S = 86_400.0
#: Shortest length: what a timer of an event loop can hold on a busy machine.
MIN_FOR_S = 0.01
_WHEN = ("fault", "after_s", "for_s")


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind with its parameters. ``needs_end``: nobody could reach the node to end it."""

    name: ClassVar[str]
    needs_end: ClassVar[bool] = False

    @classmethod
    def read(cls, _: Json) -> Self:
        """BadRequestError: a parameter is missing, or not in its range."""
        return cls()


@dataclass(frozen=True, slots=True)
class Slow(Fault):
    """Everything that the engine does takes ``factor`` times as long."""

    name: ClassVar[str] = "slow"
    factor: float

    @classmethod
    def read(cls, data: Json) -> Self:
        return cls(number(data, "factor", 1, 1000))


@dataclass(frozen=True, slots=True)
class Hang(Fault):
    """The engine stands still: requests are taken and get no token; all pages answer."""

    name: ClassVar[str] = "hang"


@dataclass(frozen=True, slots=True)
class Status(Fault):
    """Completions are answered at once with ``status``; after ``requests`` of them it is over."""

    name: ClassVar[str] = "status"
    status: int
    requests: int | None

    @classmethod
    def read(cls, data: Json) -> Self:
        requests = data.get("requests")
        return cls(
            integer(data, "status", 400, 599),
            None if requests is None else integer(data, "requests", 1, 2**31),
        )


@dataclass(frozen=True, slots=True)
class Refuse(Fault):
    """Nobody listens: new connections are refused, idle ones closed, open requests go on."""

    name: ClassVar[str] = "refuse"
    needs_end: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Reset(Fault):
    """A stream's connection is reset after ``chunks`` pieces, or before its last one; an answer
    in one piece gets the reset instead of the answer.
    """

    name: ClassVar[str] = "reset"
    chunks: int

    @classmethod
    def read(cls, data: Json) -> Self:
        return cls(integer(data, "chunks", 0, 2**31, 2))


@dataclass(frozen=True, slots=True)
class OutOfMemory(Fault):
    """The engine dies: open requests end in an error, nobody listens, then it starts anew."""

    name: ClassVar[str] = "oom"
    needs_end: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Restart(Fault):
    """As OutOfMemory, for ``down_s`` seconds."""

    name: ClassVar[str] = "restart"
    needs_end: ClassVar[bool] = True
    down_s: float

    @classmethod
    def read(cls, data: Json) -> Self:
        """``for_s`` is another word for ``down_s``."""
        given = data.get("for_s") is not None
        length_s = number(data, "for_s", MIN_FOR_S, MAX_S) if given else None
        down_s = number(data, "down_s", MIN_FOR_S, MAX_S, length_s)
        if length_s not in {None, down_s}:
            refuse("for_s", length_s, f"must be left out, or down_s: {down_s:.12g}")
        return cls(down_s)


@dataclass(frozen=True, slots=True)
class StaleMetrics(Fault):
    """The metrics and the telemetry page do not answer; the engine serves as before."""

    name: ClassVar[str] = "stale_metrics"


@dataclass(frozen=True, slots=True)
class FrozenMetrics(Fault):
    """Both pages repeat what they told when the fault began."""

    name: ClassVar[str] = "frozen_metrics"


@dataclass(frozen=True, slots=True)
class ClockSkew(Fault):
    """The node's wall clock is ahead by ``seconds``, or behind if they are negative."""

    name: ClassVar[str] = "clock_skew"
    seconds: float

    @classmethod
    def read(cls, data: Json) -> Self:
        return cls(number(data, "seconds", -MAX_S, MAX_S))


@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """Every piece in either direction is ``ms`` late, more or less by up to ``jitter_ms``."""

    name: ClassVar[str] = "delay"
    ms: float
    jitter_ms: float

    @classmethod
    def read(cls, data: Json) -> Self:
        delay_ms = number(data, "ms", 0, 60_000)
        return cls(delay_ms, number(data, "jitter_ms", 0, delay_ms, 0.0))


@dataclass(frozen=True, slots=True)
class Loss(Fault):
    """Every piece in either direction is lost with the chance ``fraction`` and sent again."""

    name: ClassVar[str] = "loss"
    fraction: float

    @classmethod
    def read(cls, data: Json) -> Self:
        return cls(number(data, "fraction", 0, 0.9))


KINDS: dict[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        Slow,
        Hang,
        Status,
        Refuse,
        Reset,
        OutOfMemory,
        Restart,
        StaleMetrics,
        FrozenMetrics,
        ClockSkew,
        Delay,
        Loss,
    )
}


@dataclass(frozen=True, slots=True)
class Order:
    """A fault, when it begins and how long it holds; times count from the order. ``for_s`` None:
    until it is cleared.
    """

    fault: Fault
    after_s: float = 0.0
    for_s: float | None = None


def parameters(fault: Fault) -> Json:
    return dataclasses.asdict(fault)


def parse_orders(data: object) -> list[Order]:
    """One order or a list of them. BadRequestError: names the first field that is wrong."""
    if not isinstance(data, list):
        return [_parse_order(data)]
    orders = []
    for index, item in enumerate(data):
        with inside(str(index)):
            orders.append(_parse_order(item))
    return orders


def _parse_order(data: object) -> Order:
    if not isinstance(data, dict):
        refuse("(order)", data, "must be an object")
    name = data.get("fault")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        refuse("fault", name, "must be one of " + ", ".join(KINDS))
    known_keys(data, (*_WHEN, *_fields(kind)))
    fault = kind.read(data)
    after_s = number(data, "after_s", 0, MAX_S, 0.0)
    if isinstance(fault, Restart):
        return Order(fault, after_s, fault.down_s)
    if data.get("for_s") is None:
        if kind.needs_end:
            refuse("for_s", None, f"is needed: nobody can reach a node in {kind.name} to end it")
        return Order(fault, after_s)
    return Order(fault, after_s, number(data, "for_s", MIN_FOR_S, MAX_S))


def _fields(kind: type[Fault]) -> Sequence[str]:
    return [field.name for field in dataclasses.fields(kind)]
