"""Traffic of one model that always leaves requests waiting, and what an engine does under it."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import aiohttp

from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.prompt import BYTES_PER_TOKEN
from isocost.fake.sequence import Prompt, coarse_marks
from isocost.fake.shared_cards import SharedCards
from tests.integration.harness.wait import wait_until

_GENERATED = re.compile(
    r'^vllm:generation_tokens_total\{.*model_name="([^"]+)".*\} (\S+)$', re.MULTILINE
)
#: Virtual seconds in which an engine fills, and in which it is measured.
_FILL_S, _MEASURE_S = 30.0, 300.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests for a model, ``open`` of them at any time: who gets an answer asks again. Their
    sizes are within a tenth of those given.
    """

    model: str
    prompt_tokens: int
    output_tokens: int
    open: int

    def sizes(self, choose: random.Random) -> tuple[int, int]:
        return (
            round(self.prompt_tokens * choose.uniform(0.9, 1.1)),
            round(self.output_tokens * choose.uniform(0.9, 1.1)),
        )


def saturated_tokens_per_s(
    hardware: Hardware, max_num_seqs: int, traffic: Mapping[str, Traffic]
) -> dict[str, float]:
    """Tokens of answers a second, by model, that a fake node gives while requests for each model of
    ``traffic`` that it has always wait: its own engines, in virtual time.
    """
    engines = {
        own.model.name: Engine(own.speed, own.kv_blocks, max_num_seqs) for own in hardware.engines
    }
    loads = {engine: traffic[name] for name, engine in engines.items() if name in traffic}
    if not loads:
        return {}
    cards = SharedCards(tuple(engines.values()))
    choose = random.Random(1)

    def submit(engine: Engine, at_s: float) -> None:
        prompt, output = loads[engine].sizes(choose)
        engine.submit(at_s, Prompt(prompt), coarse_marks(output, 2))

    for engine in loads:
        for _ in range(2 * max_num_seqs):
            submit(engine, 0.0)
    before: dict[Engine, int] = {}
    while (now_s := cards.next_wake_s()) is not None and now_s < _FILL_S + _MEASURE_S:
        if not before and now_s >= _FILL_S:
            before = {engine: engine.generation_tokens_total for engine in loads}
        for engine, progress in cards.advance(now_s):
            if progress.finished:
                submit(engine, progress.at_s)
    return {
        name: (engine.generation_tokens_total - before[engine]) / _MEASURE_S
        for name, engine in engines.items()
        if engine in loads
    }


class Saturation:
    """A context manager: the traffic through ``url``, each request on the connection of its place.

    ``answered``: by model and node how many answers; ``failures``: what else there was.
    """

    def __init__(self, url: str, traffics: Iterable[Traffic], seed: int) -> None:
        self._url = f"{url}/v1/completions"
        self._traffics = list(traffics)
        self._choose = random.Random(seed)
        self._tasks: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession
        self.answered: Counter[tuple[str, str]] = Counter()
        self.failures: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        for traffic in self._traffics:
            for _ in range(traffic.open):
                self._tasks.append(asyncio.create_task(self._ask_on(traffic)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self._session.close()

    async def _ask_on(self, traffic: Traffic) -> None:
        while True:
            prompt, output = traffic.sizes(self._choose)
            # No two begin alike.
            text = f"{self._choose.getrandbits(64):016x} " + "the sea " * prompt
            body = {
                "model": traffic.model,
                "prompt": text[: prompt * BYTES_PER_TOKEN],
                "max_tokens": output,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            async with self._session.post(self._url, json=body) as response:
                text = await response.text()
            if response.status == 200 and text.endswith("data: [DONE]\n\n"):
                event = json.loads(text.removeprefix("data: ").partition("\n")[0])
                self.answered[event["model"], event["system_fingerprint"]] += 1
            else:
                self.failures[f"{response.status}: {text[:200]}"] += 1


async def generated_tokens(
    session: aiohttp.ClientSession, urls: Mapping[str, str]
) -> Counter[tuple[str, str]]:
    """Tokens of answers so far, by model and node; ``urls`` by node."""

    async def of(node: str, url: str) -> dict[tuple[str, str], int]:
        async with session.get(f"{url}/metrics") as response:
            found = _GENERATED.findall(await response.text())
        return {(model, node): int(float(value)) for model, value in found}

    pages = await asyncio.gather(*(of(node, url) for node, url in urls.items()))
    return Counter({key: value for page in pages for key, value in page.items()})


async def tokens_while(
    session: aiohttp.ClientSession,
    urls: Mapping[str, str],
    most: Mapping[str, float],
    deadline_s: float,
) -> Counter[tuple[str, str]]:
    """Tokens by model and node from now until all nodes together have given so many of each
    model.
    """
    before = await generated_tokens(session, urls)
    since: Counter[tuple[str, str]] = Counter()

    async def enough() -> bool:
        nonlocal since
        since = await generated_tokens(session, urls)
        since.subtract(before)
        given: Counter[str] = Counter()
        for (model, _), tokens in since.items():
            given[model] += tokens
        return all(given[model] >= tokens for model, tokens in most.items())

    await wait_until(enough, "the nodes give their answers", deadline_s)
    return since
