"""Retries walk the list of destinations, and only what the client has not seen is retried."""

from __future__ import annotations

import aiohttp
import pytest

from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Answer, Backend, cut_stream, ok, reset, status
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.filters import steered_by, without_filter
from tests.integration.harness.gateway import COMPLETIONS, post, serving, wait_for_members

_BODY = b'{"prompt": "' + b"x" * 100_000 + b'"}'


@pytest.fixture
async def steered(start_envoy: StartEnvoy, ads: AdsServer) -> Envoy:
    return start_envoy(steered_by(local_bootstrap(ads.port), "x-test-destination"))


def _destinations(*backends: Backend) -> list[tuple[str, str]]:
    return [("x-test-destination", ",".join(backend.address for backend in backends))]


async def test_retries_walk_the_list_although_the_header_is_removed_on_the_way_out(
    steered: Envoy, start_backend: StartBackend, ads: AdsServer, client: aiohttp.ClientSession
) -> None:
    refusing = await start_backend("refusing")
    failing = await start_backend("failing", answer=status(503))
    good = await start_backend("good", rack="rack-2")
    # A fourth, idle node: where the fallback would go if the list were forgotten.
    idle = await start_backend("idle")
    ads.publish(serving(refusing, failing, good, idle))
    await wait_for_members(steered, total=4, healthy=4)
    await refusing.stop()
    for _ in range(10):
        answer, _ = await post(client, steered, _destinations(refusing, failing, good), _BODY)
        assert answer == 200
    assert [len(item.received) for item in (failing, good, idle)] == [10, 10, 0]
    assert {request.body for request in failing.received + good.received} == {_BODY}
    for entry in await steered.logged(10):
        assert entry["node"] == "good"
        assert entry["rack"] == "rack-2"
        assert entry["upstream"] == good.address
        assert entry["attempts"] == 3


async def test_a_prompt_of_3_mb_is_retried_whole(
    steered: Envoy, start_backend: StartBackend, ads: AdsServer, client: aiohttp.ClientSession
) -> None:
    failing = await start_backend("failing", answer=status(503))
    good = await start_backend("good")
    ads.publish(serving(failing, good))
    await wait_for_members(steered, total=2, healthy=2)
    body = b"x" * 3_000_000
    assert (await post(client, steered, _destinations(failing, good), body))[0] == 200
    assert [request.body == body for request in failing.received + good.received] == [True, True]


async def test_a_used_up_list_is_not_followed_by_another_node(
    steered: Envoy, start_backend: StartBackend, ads: AdsServer, client: aiohttp.ClientSession
) -> None:
    listed = [await start_backend(f"failing-{n}", answer=status(500)) for n in range(3)]
    idle = await start_backend("idle")
    ads.publish(serving(*listed, idle))
    await wait_for_members(steered, total=4, healthy=4)
    answer, _ = await post(client, steered, _destinations(*listed))
    assert answer == 500
    assert [len(item.received) for item in (*listed, idle)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("answer", "attempts"),
    [
        (reset, 2),
        (status(500), 2),
        (status(503), 2),
        (status(400), 1),
        (status(413), 1),
        (status(422), 1),
        (status(429), 1),
    ],
    ids=["reset", "500", "503", "400", "413", "422", "429"],
)
async def test_faults_of_the_node_are_retried_and_faults_of_the_client_are_not(
    steered: Envoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    answer: Answer,
    attempts: int,
) -> None:
    first, second = await start_backend("first", answer=answer), await start_backend("second")
    ads.publish(serving(first, second))
    await wait_for_members(steered, total=2, healthy=2)
    headers = dict(_destinations(first, second))
    async with client.post(steered.url + COMPLETIONS, headers=headers) as response:
        assert (response.status == 200) == (attempts == 2)
        assert response.headers["x-envoy-attempt-count"] == str(attempts)
    assert [len(first.received), len(second.received)] == [1, attempts - 1]


async def test_an_answer_that_has_begun_is_never_retried(
    steered: Envoy, start_backend: StartBackend, ads: AdsServer, client: aiohttp.ClientSession
) -> None:
    first, second = await start_backend("first", answer=cut_stream), await start_backend("second")
    ads.publish(serving(first, second))
    await wait_for_members(steered, total=2, healthy=2)
    headers = dict(_destinations(first, second))
    with pytest.raises(aiohttp.ClientPayloadError):
        async with client.post(steered.url + COMPLETIONS, headers=headers) as response:
            assert response.status == 200
            await response.read()
    assert [len(first.received), len(second.received)] == [1, 0]


async def test_the_fallbacks_retry_leaves_the_node_that_failed(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    failing = await start_backend("failing", answer=status(503))
    good = await start_backend("good", answer=ok)
    ads.publish(serving(failing, good))
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await wait_for_members(envoy, total=2, healthy=2)
    for _ in range(20):
        assert (await post(client, envoy))[0] == 200
    assert len(good.received) == 20
