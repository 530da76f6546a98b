"""An engine over HTTP: streamed chat completions, its models and its metrics page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from isocost.bench.prompt import PromptSource
from isocost.bench.sse import AnswerReader
from isocost.bench.target import Target, require_listening
from isocost.calibrate.flight import Flight
from isocost.errors import RejectedError, StartError
from isocost.model import EngineSample
from isocost.telemetry import scrape
from isocost.telemetry.engines.detect import read_engine_page

_CONNECT_S = 5.0
#: The longest silence of an answer: prompts wait for each other when a load begins.
_SILENCE_S = 120.0
#: Servers close connections that idle (uvicorn after 5 s).
_KEPT_S = 4.0
#: What is kept of an error's text, in characters.
_DETAIL = 200


@dataclass(frozen=True, slots=True)
class Served:
    """The model that is asked for, what it is behind its name, and the longest request."""

    model: str
    root: str | None
    max_tokens: int | None


class HttpEngine:
    """``seed``: prompts of different seeds share nothing, so no cache knows them. ``serve`` comes
    before the first request.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        pages: scrape.Pages,
        target: Target,
        seed: int,
    ) -> None:
        self._session = session
        self._base = target.chat_url.removesuffix("/v1/chat/completions")
        self._chat_url = target.chat_url
        self._metrics = scrape.Target(
            pages, self._base + "/metrics", read_engine_page, time.perf_counter
        )
        self._prompts = PromptSource(seed)
        self._fields = b""

    async def serve(self, model: str | None) -> Served:
        """Choose the model: the only one that there is, or the one that is wanted.

        RejectedError: it is not there, or there are several. StartError: no list of models.
        """
        listed = await self._models()
        names = [str(entry.get("id")) for entry in listed]
        if model is None and len(names) != 1:
            raise RejectedError(f"--model is needed: the engine serves {', '.join(names)}")
        wanted = names[0] if model is None else model
        if wanted not in names:
            raise RejectedError(f"--model {wanted!r}: the engine serves {', '.join(names)}")
        entry = listed[names.index(wanted)]
        root, longest = entry.get("root"), entry.get("max_model_len")
        fields = {
            "model": wanted,
            "stream": True,
            "stream_options": {"include_usage": True},
            # Answers have the length that is asked for; servers that do not know it leave it out.
            "ignore_eos": True,
        }
        self._fields = json.dumps(fields)[:-1].encode()
        return Served(
            model=wanted,
            root=root if isinstance(root, str) else None,
            max_tokens=longest if isinstance(longest, int) else None,
        )

    def now_s(self) -> float:
        return time.perf_counter()

    async def send(self, flight: Flight) -> None:
        body = b'%s,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}' % (
            self._fields,
            flight.shape.output_tokens,
            self._prompts.prompt(flight.shape.input_tokens),
        )
        flight.sent_bytes = len(body)
        flight.sent_s = self.now_s()
        reader = AnswerReader()
        try:
            async with self._session.post(
                self._chat_url, data=body, headers={"content-type": "application/json"}
            ) as response:
                if response.status != 200:
                    text = _shown(await response.read())
                    raise StartError(f"{self._chat_url} answered {response.status}: {text}")
                async for data in response.content.iter_any():
                    flight.received_bytes += len(data)
                    now_s = self.now_s()
                    reader.feed(data, now_s)
                    flight.pieces += [now_s] * (reader.chunks - len(flight.pieces))
                reader.end(self.now_s())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StartError(f"{self._chat_url}: {error or 'no answer in time'}") from error
        finally:
            flight.end_s = self.now_s()
        if reader.failure is not None:
            text = _shown(reader.bad_event) or "it ended early"
            raise StartError(f"{self._chat_url}: an answer that is not whole: {text}")
        flight.input_tokens, flight.output_tokens = reader.input_tokens, reader.output_tokens

    async def sample(self) -> EngineSample | None:
        await self._metrics.start()
        page = self._metrics.page
        return page.sample if page is not None and self._metrics.good else None

    async def _models(self) -> list[dict[str, Any]]:
        url = self._base + "/v1/models"
        try:
            async with asyncio.timeout(_CONNECT_S), self._session.get(url) as response:
                if response.status != 200:
                    raise StartError(f"{url} answered {response.status}")
                listed = json.loads(await response.read())["data"]
                if listed and all(isinstance(entry, dict) for entry in listed):
                    return list(listed)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StartError(f"{url}: {error or 'no answer in time'}") from error
        except (ValueError, LookupError, TypeError):
            pass
        raise StartError(f"{url} is no list of models")


@asynccontextmanager
async def connected(
    target: Target, headers: Mapping[str, str], seed: int
) -> AsyncIterator[HttpEngine]:
    """StartError: nobody listens."""
    await require_listening(target, _CONNECT_S)
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_S),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"accept-encoding": "identity", **headers},
        ) as session,
        scrape.Pages() as pages,
    ):
        yield HttpEngine(session, pages, target, seed)


def _shown(text: bytes) -> str:
    return " ".join(text[: 10 * _DETAIL].decode(errors="replace").split())[:_DETAIL]
