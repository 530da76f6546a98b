"""The client of a calibration: what it sends, and what ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from isocost.bench.target import Target
from isocost.calibrate.flight import Flight
from isocost.calibrate.http_engine import HttpEngine, connected
from isocost.calibrate.plan import Shape
from isocost.errors import RejectedError, StartError
from tests.unit.bench.chat_server import DONE, PATH, TEXT, USAGE, Handler, streaming
from tests.unit.bench.listening import listening

ONE = {"data": [{"id": "m", "root": "llama", "max_model_len": 4096}]}


@asynccontextmanager
async def engine(
    answer: Handler, models: object = ONE, page: str = ""
) -> AsyncIterator[HttpEngine]:
    async def list_models(_: web.Request) -> web.Response:
        return web.json_response(models)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=page) if page else web.Response(status=404)

    app = web.Application()
    app.router.add_post(PATH, answer)
    app.router.add_get("/v1/models", list_models)
    app.router.add_get("/metrics", metrics)
    async with listening(app) as url, connected(Target("e", url), {"x-key": "k"}, 1) as client:
        yield client


async def test_a_flight_has_its_pieces_and_what_the_engine_counted() -> None:
    asked: list[dict[str, object]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append({**await request.json(), "key": request.headers["x-key"]})
        return await streaming(TEXT, 0.01, TEXT, USAGE, DONE)(request)

    async with engine(answer) as client:
        served = await client.serve(None)
        flight = Flight(Shape(20, 11))
        await client.send(flight)
    assert (served.model, served.root, served.max_tokens) == ("m", "llama", 4096)
    assert (flight.input_tokens, flight.output_tokens, len(flight.pieces)) == (9, 11, 2)
    assert flight.sent_s < flight.pieces[0] < flight.pieces[1]
    assert flight.received_bytes == len(TEXT * 2 + USAGE + DONE)
    body = asked[0]
    assert (body["model"], body["max_tokens"], body["ignore_eos"]) == ("m", 11, True)
    assert body["key"] == "k"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (streaming(TEXT), "not whole: it ended early"),
        (streaming(b'data: {"error": {"message": "no"}}\n\n', DONE), "not whole: .*no"),
    ],
)
async def test_an_answer_that_is_not_whole_ends_the_calibration(answer: Handler, why: str) -> None:
    async with engine(answer) as client:
        await client.serve(None)
        with pytest.raises(StartError, match=why):
            await client.send(Flight(Shape(20, 11)))


async def test_a_refusal_is_told_with_its_text() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=429, text="too\nmany")

    async with engine(refuse) as client:
        await client.serve(None)
        with pytest.raises(StartError, match="answered 429: too many"):
            await client.send(Flight(Shape(20, 11)))


async def test_of_several_models_one_must_be_named() -> None:
    models = {"data": [{"id": "a"}, {"id": "b"}]}
    async with engine(streaming(), models) as client:
        with pytest.raises(RejectedError, match="--model is needed: the engine serves a, b"):
            await client.serve(None)
        with pytest.raises(RejectedError, match="--model 'c': the engine serves a, b"):
            await client.serve("c")
        assert (await client.serve("b")).model == "b"


@pytest.mark.parametrize("models", [[], {"data": []}, {"data": ["m"]}])
async def test_what_is_no_list_of_models_is_refused(models: object) -> None:
    async with engine(streaming(), models) as client:
        with pytest.raises(StartError, match="is no list of models"):
            await client.serve(None)


async def test_a_page_that_cannot_be_read_is_no_sample() -> None:
    for page in ("", "not an engine's page"):
        async with engine(streaming(), page=page) as client:
            assert await client.sample() is None
    async with engine(streaming(), page="vllm:num_requests_running 3\n") as client:
        sample = await client.sample()
        assert sample is not None
        assert sample.running.value == 3.0
