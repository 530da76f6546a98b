"""The agent's stream to the control plane: reconnects by itself, and never sends an old sample."""

from __future__ import annotations

import asyncio
import logging
import random
import time

import grpc

from isocost.telemetry.report import StreamMemory
from isocost.v1 import telemetry_pb2

METHOD = "/isocost.v1.Telemetry/Report"
#: After a lost stream: soon enough that a restarted control plane has its nodes back at once, and
#: spread over the fleet.
BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 3.0
#: After an outage of 5 s an agent is back within 0.33 s, so that tables resume within a second.
BACKOFF_SHARE = 1 / 15
#: Making a connection, or handing over one report; a control plane that takes longer is gone.
PATIENCE_S = 3.0

log = logging.getLogger(__name__)


class Backoff:
    """Jittered waits between the minimum and a part of the outage so far, up to the maximum.

    So a control plane that restarts has its agents back at once, and one that was away for a
    minute is not stormed.
    """

    def __init__(self, choose: random.Random) -> None:
        self._random = choose

    def next_s(self, outage_s: float) -> float:
        limit_s = min(max(outage_s * BACKOFF_SHARE, 2 * BACKOFF_MIN_S), BACKOFF_MAX_S)
        return self._random.uniform(BACKOFF_MIN_S, limit_s)


class Newest:
    """A place for one report; a newer one replaces it."""

    def __init__(self) -> None:
        self._report: telemetry_pb2.TelemetryReport | None = None
        self._there = asyncio.Event()

    def put(self, report: telemetry_pb2.TelemetryReport) -> None:
        self._report = report
        self._there.set()

    async def take(self) -> telemetry_pb2.TelemetryReport:
        """Wait for a report that was not taken yet."""
        while self._report is None:
            self._there.clear()
            await self._there.wait()
        report, self._report = self._report, None
        return report


class Uplink:
    """Delivers the newest report to ``control_plane`` (HOST:PORT) until it is cancelled."""

    def __init__(self, control_plane: str, newest: Newest, choose: random.Random) -> None:
        self._control_plane = control_plane
        self._newest = newest
        self._backoff = Backoff(choose)
        #: Told last: a state is logged when it changes.
        self._connected: bool | None = None
        self.reports_total = 0
        self.lost_total = 0

    @property
    def connected(self) -> bool:
        return self._connected is True

    async def run(self) -> None:
        down_since_s = time.monotonic()
        while True:
            started_s = time.monotonic()
            try:
                await self._stream()
            except grpc.aio.AioRpcError as error:
                reason = f"{error.code().name}: {error.details()}"
            except asyncio.InvalidStateError:
                reason = "it ended the stream"
            except TimeoutError:
                reason = f"it did not take a report within {PATIENCE_S:g} s"
            # A stream that lived long was a good one; one that is refused again and again is not.
            now_s = time.monotonic()
            if now_s - started_s > BACKOFF_MAX_S:
                down_since_s = now_s
            if self._connected is not False:
                log.warning(
                    "no control plane at %s: %s",
                    *(self._control_plane, reason),
                    extra={"control_plane": self._control_plane, "reason": reason},
                )
            self._connected = False
            self.lost_total += 1
            await asyncio.sleep(self._backoff.next_s(now_s - down_since_s))

    async def _stream(self) -> None:
        # Its own subchannel: gRPC's shared one would add its own, longer back-off to ours.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(self._control_plane, options) as channel:
            call = channel.stream_unary(
                METHOD, request_serializer=telemetry_pb2.TelemetryReport.SerializeToString
            )()
            # asyncio.timeout, not wait_for: Python 3.11's loses a cancellation that comes together
            # with the result, and the agent would not stop.
            async with asyncio.timeout(PATIENCE_S):
                await call.wait_for_connection()
            memory = StreamMemory()
            while True:
                report = await self._newest.take()
                memory.shorten(report)
                async with asyncio.timeout(PATIENCE_S):
                    await call.write(report)
                if not self._connected:
                    log.info("reports to the control plane at %s", self._control_plane)
                self._connected = True
                self.reports_total += 1
