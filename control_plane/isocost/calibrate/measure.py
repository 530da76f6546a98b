"""Holds a load on an engine and reads a probe's time per token meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from isocost.calibrate.flight import Flight
from isocost.calibrate.levels import Window
from isocost.calibrate.plan import Load, Shape
from isocost.errors import StartError
from isocost.model import EngineSample

#: A short prompt that costs the load next to nothing, and tokens for a second and more: answers
#: arrive some milliseconds late.
PROBE = Shape(16, 128)
#: Makes the engine write its gauges anew.
_NUDGE = Shape(16, 2)
#: Probes of a load at least: their differences are the error.
_FEWEST_PROBES = 2
_SAMPLE_INTERVAL_S = 0.25
#: An engine notices within a step that a client hung up.
_IDLE_DEADLINE_S = 5.0
_POLL_INTERVAL_S = 0.1


class Engine(Protocol):
    """The one engine that is measured."""

    def now_s(self) -> float:
        """Of the clock that flights are told in."""

    async def send(self, flight: Flight) -> None:
        """Send the request, and fill in what comes of it. StartError: no whole answer."""

    async def sample(self) -> EngineSample | None:
        """Its metrics page; None where it has none that can be read."""


@dataclass(slots=True)
class Measured:
    """What came of one load (None: the engine alone). ``samples`` have their times; every flight
    has its end.
    """

    load: Load | None
    windows: list[Window] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)
    probes: list[Flight] = field(default_factory=list)
    samples: list[tuple[float, EngineSample]] = field(default_factory=list)

    @property
    def token_s(self) -> float:
        """The probe's time per output token."""
        return self.measured_s / sum(window.tokens for window in self.windows)

    @property
    def measured_s(self) -> float:
        return sum(window.end_s - window.start_s for window in self.windows)


async def measure(engine: Engine, load: Load | None, seconds: float) -> Measured:
    """Probe after probe for ``seconds``, at least two, while the load is held.

    StartError: a request failed, or others use the engine.
    """
    await _require_idle(engine)
    result = Measured(load)
    work = [_probe(engine, result, seconds), _sample(engine, result)]
    if load is not None:
        work += [_send(engine, load, number, result) for number in range(load.concurrency)]
    tasks = [asyncio.create_task(part) for part in work]
    try:
        # Only the probing ends by itself; whatever else does has failed.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    _complete(engine.now_s(), result)
    return result


async def _probe(engine: Engine, result: Measured, seconds: float) -> None:
    """From the time on when each worker's first request is being answered."""
    workers = 0 if result.load is None else result.load.concurrency
    # All workers have begun by then.
    await asyncio.sleep(_POLL_INTERVAL_S)
    await _answered(result.flights[:workers])
    begin_s = engine.now_s()
    while len(result.windows) < _FEWEST_PROBES or engine.now_s() < begin_s + seconds:
        probe = Flight(PROBE)
        result.probes.append(probe)
        await engine.send(probe)
        result.windows.append(_window(probe))
    # A prompt that was computed meanwhile is known by its first token.
    await _answered(result.flights[:])


async def _answered(flights: Sequence[Flight]) -> None:
    """Each has its first token."""
    while not all(flight.pieces for flight in flights):  # noqa: ASYNC110  nothing signals it
        await asyncio.sleep(_POLL_INTERVAL_S)


async def _send(engine: Engine, load: Load, number: int, result: Measured) -> None:
    """One worker: request after request, its shapes in turn."""
    # First answers end evenly spread, and so do all later ones: prompts come one by one.
    shape = load.shapes[number % len(load.shapes)]
    first = max(shape.output_tokens * (number + 1) // load.concurrency, 2)
    flight = Flight(Shape(shape.input_tokens, first))
    for turn in itertools.count(number + 1):
        result.flights.append(flight)
        await engine.send(flight)
        flight = Flight(load.shapes[turn % len(load.shapes)])


async def _sample(engine: Engine, result: Measured) -> None:
    """The engine's page again and again. StartError: it has more to do than we gave it."""
    most = 1 + (0 if result.load is None else result.load.concurrency)
    while True:
        asked_s = engine.now_s()
        sample = await engine.sample()
        if sample is not None:
            result.samples.append(((asked_s + engine.now_s()) / 2, sample))
            if (_requests(sample) or 0.0) > most:
                raise StartError(
                    f"the engine has {_requests(sample):.0f} requests, of which {most} are ours: "
                    "calibration needs it without other traffic"
                )
        await asyncio.sleep(_SAMPLE_INTERVAL_S)


async def _require_idle(engine: Engine) -> None:
    """Wait until what was cut is gone. StartError: others use the engine."""
    end_s = engine.now_s() + _IDLE_DEADLINE_S
    while (sample := await engine.sample()) is not None and (requests := _requests(sample)):
        if engine.now_s() >= end_s:
            raise StartError(
                f"the engine has {requests:.0f} requests that are not ours: calibration needs it "
                "without other traffic"
            )
        await asyncio.sleep(_POLL_INTERVAL_S)
        # An engine without work may leave its last numbers on the page.
        await engine.send(Flight(_NUDGE))


def _requests(sample: EngineSample) -> float | None:
    """Running and waiting; None = not known."""
    parts = [signal.value for signal in (sample.running, sample.waiting) if signal.known]
    return sum(parts) if parts else None


def _window(probe: Flight) -> Window:
    """StartError: the answer does not tell the time of a token."""
    tokens, pieces = probe.output_tokens, probe.pieces
    if tokens is None:
        raise StartError("the engine does not tell usage with a streamed answer")
    if tokens < PROBE.output_tokens // 2:
        raise StartError(
            f"an answer that was to have {PROBE.output_tokens} tokens has {tokens}: the engine "
            "must obey ignore_eos"
        )
    if not pieces or pieces[-1] <= pieces[0]:
        raise StartError("an answer came in one piece: the engine must stream")
    return Window(tuple(pieces), tokens - 1)


def _complete(now_s: float, result: Measured) -> None:
    """What is not known of requests that were cut: their prompts are as long as others' alike."""
    counted = {
        flight.shape.input_tokens: flight.input_tokens
        for flight in result.flights
        if flight.input_tokens is not None
    }
    for flight in result.flights:
        if flight.end_s is None:
            flight.end_s = now_s
        if flight.input_tokens is None:
            flight.input_tokens = counted.get(flight.shape.input_tokens)
