"""Open-loop replay of a trace: requests leave when the trace says, whatever came of the others.

Every latency counts from the scheduled time, so a late generator or a full connection pool shows
in the figures and is never hidden (no coordinated omission).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from isocost import __version__
from isocost.bench.prompt import PromptSource
from isocost.bench.result import TOO_MANY_REQUESTS, FailureKind, RequestResult
from isocost.bench.sse import AnswerReader
from isocost.bench.trace import TraceRequest
from isocost.bench.whole_answer import WholeAnswerReader

#: Servers close a connection that idles (uvicorn after 5 s), and a request that is on its way
#: then is lost: one that has idled longer than this is not used again.
_IDLE_S = 4.0
#: A generator that is behind sends this many requests before it reads answers again: those must
#: not wait for the whole arrears.
_BURST = 16
#: What is kept of a failure's text, in characters.
_DETAIL = 200
#: A shorter value of a header is a word that may stand anywhere.
_SHORTEST_SECRET = 8
#: By the status's hundreds.
_STATUS_KINDS: Mapping[int, FailureKind] = {
    2: "status_2xx",
    3: "status_3xx",
    4: "status_4xx",
    5: "status_5xx",
}


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Where and how a trace is replayed."""

    #: Of the chat completions.
    url: str
    model: str
    seed: int = 1
    #: Sockets at most; a request that finds none free waits, and its latency says so.
    max_connections: int = 4096
    request_timeout_s: float = 120.0
    connect_timeout_s: float = 5.0
    #: Sent with every request.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Members of every request's JSON beside those that the trace gives.
    body: Mapping[str, object] = field(default_factory=dict)

    @property
    def streamed(self) -> bool:
        return is_streamed(self.body)


def is_streamed(body: Mapping[str, object]) -> bool:
    """Whether requests with these members ask for answers that come piece by piece."""
    return body.get("stream") is not False


class Replay:
    """One replay; the counters may be read while it runs.

    ``start_s`` is the trace's time at which it begins: a later part of a trace keeps its times.
    """

    def __init__(
        self, requests: Sequence[TraceRequest], settings: ReplaySettings, start_s: float = 0.0
    ) -> None:
        self._requests = requests
        self._settings = settings
        self._prompts = PromptSource(settings.seed)
        self._start_s = start_s
        #: When the trace's time was 0; None until the replay begins.
        self._epoch_s: float | None = None
        self._fields = _fields(settings)
        self._reader = AnswerReader if settings.streamed else WholeAnswerReader
        self._results: list[RequestResult] = []
        self._sending: asyncio.Task[None] | None = None
        self._stopped = False
        self.total = len(requests)
        self.sent = 0
        #: Without the rejected ones (429).
        self.failed = 0
        self.rejected = 0
        #: Complete answers by the node that gave them.
        self.answered: Counter[str] = Counter()

    @property
    def done(self) -> int:
        return len(self._results)

    @property
    def now_s(self) -> float:
        """The trace's time; it stands at the start until the replay begins."""
        return self._start_s if self._epoch_s is None else time.perf_counter() - self._epoch_s

    def stop(self) -> None:
        """End the run now: what has not been answered has the failure "unanswered"."""
        self._stopped = True
        if self._sending is not None:
            self._sending.cancel()

    async def run(self) -> tuple[RequestResult, ...]:
        """Send every request at its time, wait for all answers; results in order of their end."""
        if self._stopped:
            return ()
        self._epoch_s = time.perf_counter() - self._start_s
        self._sending = asyncio.create_task(self._send_all())
        try:
            await self._sending
        except asyncio.CancelledError:
            # stop() cancels the sending only: then the results so far are the answer.
            if not self._stopped:
                raise
        finally:
            self._sending.cancel()
            await asyncio.wait({self._sending})
        return tuple(self._results)

    async def _send_all(self) -> None:
        settings = self._settings
        connector = aiohttp.TCPConnector(
            limit=settings.max_connections, limit_per_host=0, keepalive_timeout=_IDLE_S
        )
        timeout = aiohttp.ClientTimeout(
            total=settings.request_timeout_s, sock_connect=settings.connect_timeout_s
        )
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if settings.streamed else "application/json",
            # Nothing unpacks an answer here: that would be the generator's time.
            "accept-encoding": "identity",
            "user-agent": f"isocost-bench/{__version__}",
            **settings.headers,
        }
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                headers=headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            ) as session,
            asyncio.TaskGroup() as tasks,
        ):
            for number, request in enumerate(self._requests, 1):
                delay_s = request.arrival_s - self.now_s
                if delay_s > 0 or number % _BURST == 0:
                    await asyncio.sleep(max(delay_s, 0.0))
                tasks.create_task(self._request(session, request))

    async def _request(self, session: aiohttp.ClientSession, request: TraceRequest) -> None:
        sent_s = self.now_s
        self.sent += 1
        reader = self._reader()
        status: int | None = None
        first_byte_s: float | None = None
        request_id: str | None = None
        failure: FailureKind | None = "unanswered"
        detail: str | bytes = ""
        try:
            async with session.post(
                self._settings.url, data=self._body(request), allow_redirects=False
            ) as response:
                first_byte_s = self.now_s
                status = response.status
                request_id = response.headers.get("x-request-id")
                if status == 200:
                    async for data in response.content.iter_any():
                        reader.feed(data, self.now_s)
                    reader.end(self.now_s)
                    failure, detail = reader.failure, reader.bad_event
                else:
                    # All of it, so that the connection can be used again.
                    detail = await response.read()
                    failure = _STATUS_KINDS.get(status // 100, "status_5xx")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            failure, detail = "connect", str(error)
        except TimeoutError:
            failure = "timeout"
        except aiohttp.ClientError as error:
            failure, detail = "reset", str(error)
        except Exception as error:  # noqa: BLE001  one odd answer must not end the run
            failure = "connect" if status is None else "bad_event"
            detail = f"{type(error).__name__}: {error}"
        finally:
            # Also of a request that stop() cancels.
            if status == TOO_MANY_REQUESTS:
                self.rejected += 1
            else:
                self.failed += failure is not None
            if failure is None and reader.node is not None:
                self.answered[reader.node] += 1
            self._results.append(
                RequestResult(
                    scheduled_s=request.arrival_s,
                    sent_s=sent_s,
                    end_s=self.now_s,
                    input_tokens=request.input_tokens,
                    failure=failure,
                    detail=self._shown(detail) if failure is not None else None,
                    status=status,
                    first_byte_s=first_byte_s,
                    first_token_s=reader.first_token_s,
                    last_token_s=reader.last_token_s,
                    chunks=reader.chunks,
                    output_tokens=reader.output_tokens,
                    request_id=request_id,
                    node=reader.node,
                    kind=request.kind,
                    user=request.user,
                )
            )

    def _shown(self, detail: str | bytes) -> str | None:
        """A failure's detail for the report: short, and without what is secret."""
        if isinstance(detail, bytes):
            text = detail[: 10 * _DETAIL].decode(errors="replace")
        else:
            text = detail
        for value in self._settings.headers.values():
            # Of "Bearer KEY" also the key alone.
            for secret in (value, value.rpartition(" ")[2]):
                if len(secret) >= _SHORTEST_SECRET:
                    text = text.replace(secret, "***")
        return " ".join(text.split())[:_DETAIL] or None

    def _body(self, request: TraceRequest) -> bytes:
        return b'%s,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}' % (
            self._fields,
            request.output_tokens,
            self._prompts.prompt(request.input_tokens, request.blocks, request.block_tokens),
        )


def _fields(settings: ReplaySettings) -> bytes:
    """The part of every request's JSON that is the same, without the closing brace."""
    fields: dict[str, object] = {"model": settings.model, "stream": True}
    if settings.streamed:
        # Engines refuse it without a stream.
        fields["stream_options"] = {"include_usage": True}
    return json.dumps({**fields, **settings.body})[:-1].encode()
