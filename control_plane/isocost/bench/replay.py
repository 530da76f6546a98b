"""Open-loop replay of a trace: requests leave when the trace says, whatever came of the others.

Every latency counts from the scheduled time, so a late generator or a full connection pool shows
in the figures and is never hidden (no coordinated omission).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from isocost.bench.prompt import PromptSource
from isocost.bench.sse import AnswerReader
from isocost.bench.trace import TraceRequest

_CHAT_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Where and how a trace is replayed."""

    base_url: str
    model: str
    seed: int = 1
    #: Sockets at most; a request that finds none free waits, and its latency says so.
    max_connections: int = 1024
    request_timeout_s: float = 120.0
    connect_timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class RequestResult:
    """One request's life, in seconds since the replay's start; None = it never came to that.

    ``failure`` is None for a complete answer, else one of connect, status_3xx, status_4xx,
    status_5xx, reset, timeout, truncated (no [DONE]), bad_event (an event that is not JSON or
    carries an error).
    """

    scheduled_s: float
    sent_s: float
    end_s: float
    input_tokens: int
    failure: str | None
    status: int | None = None
    first_byte_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    chunks: int = 0
    output_tokens: int | None = None
    #: The gateway's name for the request, which its access log repeats.
    request_id: str | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def ttft_ms(self) -> float | None:
        """Scheduled time to first token."""
        return None if self.first_token_s is None else (self.first_token_s - self.scheduled_s) * 1e3

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first; unknown without usage or with one token."""
        if self.first_token_s is None or self.last_token_s is None:
            return None
        if self.output_tokens is None or self.output_tokens < 2 or self.chunks < 2:
            return None
        return (self.last_token_s - self.first_token_s) * 1e3 / (self.output_tokens - 1)

    @property
    def e2e_ms(self) -> float:
        """Scheduled time to the end of the answer."""
        return (self.end_s - self.scheduled_s) * 1e3


class Replay:
    """One replay; the counters may be read while it runs."""

    def __init__(self, requests: Sequence[TraceRequest], settings: ReplaySettings) -> None:
        self._requests = requests
        self._settings = settings
        self._prompts = PromptSource(settings.seed)
        self._results: list[RequestResult] = []
        self._start = 0.0
        self.total = len(requests)
        self.sent = 0
        self.failed = 0
        self.started_at_unix_ms: float | None = None

    @property
    def done(self) -> int:
        return len(self._results)

    async def run(self) -> tuple[RequestResult, ...]:
        """Send every request at its time, wait for all answers; results in order of their end."""
        settings = self._settings
        connector = aiohttp.TCPConnector(
            limit=settings.max_connections, limit_per_host=settings.max_connections
        )
        timeout = aiohttp.ClientTimeout(
            total=settings.request_timeout_s, sock_connect=settings.connect_timeout_s
        )
        async with (
            aiohttp.ClientSession(
                settings.base_url, connector=connector, timeout=timeout, auto_decompress=False
            ) as session,
            asyncio.TaskGroup() as tasks,
        ):
            self.started_at_unix_ms = time.time() * 1e3
            self._start = time.perf_counter()
            for request in self._requests:
                delay_s = request.arrival_s - self._now()
                if delay_s > 0:
                    await asyncio.sleep(delay_s)
                tasks.create_task(self._request(session, request))
        return tuple(self._results)

    def _now(self) -> float:
        return time.perf_counter() - self._start

    async def _request(self, session: aiohttp.ClientSession, request: TraceRequest) -> None:
        sent_s = self._now()
        self.sent += 1
        reader = AnswerReader()
        status: int | None = None
        first_byte_s: float | None = None
        request_id: str | None = None
        try:
            async with session.post(
                _CHAT_PATH,
                data=self._body(request),
                headers={"content-type": "application/json"},
                allow_redirects=False,
            ) as response:
                first_byte_s = self._now()
                status = response.status
                request_id = response.headers.get("x-request-id")
                if status == 200:
                    async for data in response.content.iter_any():
                        reader.feed(data, self._now())
                    failure = reader.failure
                else:
                    await response.read()
                    failure = f"status_{status // 100}xx"
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            failure = "connect"
        except TimeoutError:
            failure = "timeout"
        except aiohttp.ClientError:
            failure = "reset"
        self.failed += failure is not None
        self._results.append(
            RequestResult(
                scheduled_s=request.arrival_s,
                sent_s=sent_s,
                end_s=self._now(),
                input_tokens=request.input_tokens,
                failure=failure,
                status=status,
                first_byte_s=first_byte_s,
                first_token_s=reader.first_token_s,
                last_token_s=reader.last_token_s,
                chunks=reader.chunks,
                output_tokens=reader.output_tokens,
                request_id=request_id,
            )
        )

    def _body(self, request: TraceRequest) -> bytes:
        head = json.dumps(
            {
                "model": self._settings.model,
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": request.output_tokens,
            }
        )
        return b'%s,"messages":[{"role":"user","content":"%s"}]}' % (
            head[:-1].encode(),
            self._prompts.prompt(request.input_tokens),
        )
