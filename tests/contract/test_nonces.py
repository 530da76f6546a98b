"""Conformance: an answer counts for the response whose nonce it carries, on one stream only."""

import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import ROUTES
from isocost.push.variant import DELTA, WHOLE
from tests.contract.conftest import OpenXds
from tests.contract.xds_resources import opaque


async def test_unknown_nonce_on_a_new_stream_is_a_first_request(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, r=b"1"))
    client = open_xds()
    await client.subscribe(ROUTES, "r", nonce="former.1.9", version="7", error="of long ago")
    assert (await client.taken(ROUTES)).values == [b"1"]
    await client.expect_nothing_else()


async def test_every_response_has_a_nonce_of_its_own(cache: Cache, open_xds: OpenXds) -> None:
    nonces = []
    for node_id in ("one", "two"):
        client = open_xds(node_id)
        await client.subscribe(ROUTES, "r")
        for content in (b"1", b"2", b"1"):
            cache.publish(opaque(ROUTES, r=content))
            nonces.append((await client.taken(ROUTES)).nonce)
            await client.expect_nothing_else()
    assert len(set(nonces)) == len(nonces)


async def test_stale_nonce_answers_nothing(
    cache: Cache, ads: AdsService, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, r=b"1"))
    client = open_xds()
    await client.subscribe(ROUTES, "r")
    old = await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, r=b"2"))
    new = await client.receive(ROUTES)
    await client.nack(old, "too late")
    await client.ack(old)
    await client.expect_nothing_else()
    status = ads.clients()[0].types[ROUTES]
    assert (status.outstanding, status.nacks, status.acked_version) == (True, 0, old.version)
    await client.ack(new)
    await client.expect_nothing_else()
    assert ads.clients()[0].types[ROUTES].acked_version == new.version


@pytest.mark.parametrize("variant", [DELTA], ids=["delta"], indirect=True)
async def test_names_with_a_stale_nonce_count_in_delta(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = open_xds()
    await client.subscribe(ROUTES, "first")
    old = await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, first=b"new", second=b"2"))
    new = await client.receive(ROUTES)
    # A list of changes that was ignored would be lost for ever.
    await client.subscribe(ROUTES, "second", nonce=old.nonce)
    await client.ack(new)
    assert (await client.taken(ROUTES)).names == ["second"]


@pytest.mark.parametrize("variant", [WHOLE], ids=["whole"], indirect=True)
async def test_names_with_a_stale_nonce_wait_for_the_answer_in_state_of_the_world(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = open_xds()
    await client.subscribe(ROUTES, "first")
    old = await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, first=b"new", second=b"2"))
    new = await client.receive(ROUTES)
    await client.subscribe(ROUTES, "second", nonce=old.nonce)
    await client.expect_nothing_else()
    await client.ack(new)
    assert (await client.taken(ROUTES)).values == [b"new", b"2"]
