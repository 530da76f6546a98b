"""Responses read back as they were meant, and are encoded once for all streams."""

import pytest
from envoy_data_plane.envoy.service.discovery.v3 import DeltaDiscoveryResponse, DiscoveryResponse

from isocost.push.encode import ResponseEncoder, delta_body, whole_body
from isocost.push.snapshot import Response, TypeResources
from isocost.push.type_urls import ROUTES
from tests.contract.xds_resources import any_body


def resources(version: str, *sizes: int) -> TypeResources:
    bodies = {f"r{size}": any_body(ROUTES, bytes(size)) for size in sizes}
    return TypeResources(ROUTES, version, bodies)


@pytest.mark.parametrize("sizes", [(), (0,), (1, 127, 128), (16_383, 16_384), (3_000_000,)])
def test_response_reads_back(sizes: tuple[int, ...]) -> None:
    held = resources("v1", *sizes)
    raw = ResponseEncoder(whole_body).encode(Response(held, tuple(held.resources)), "n.1")
    response = DiscoveryResponse.parse(raw)
    assert (response.version_info, response.type_url, response.nonce) == ("v1", ROUTES, "n.1")
    assert [body.value for body in response.resources] == [bytes(size) for size in sizes]
    assert all(body.type_url == ROUTES for body in response.resources)


def test_only_the_named_are_in_it() -> None:
    response = Response(resources("v1", 1, 2, 3), ("r1", "r3"))
    raw = ResponseEncoder(whole_body).encode(response, "n")
    assert [len(body.value) for body in DiscoveryResponse.parse(raw).resources] == [1, 3]


@pytest.mark.parametrize("sizes", [(), (0,), (1, 127, 128), (3_000_000,)])
def test_delta_response_reads_back(sizes: tuple[int, ...]) -> None:
    held = resources("v1", *sizes)
    response = Response(held, tuple(held.resources), ("gone", "unknown"))
    raw = ResponseEncoder(delta_body).encode(response, "n.1")
    read = DeltaDiscoveryResponse.parse(raw)
    assert (read.system_version_info, read.type_url, read.nonce) == ("v1", ROUTES, "n.1")
    assert read.removed_resources == ["gone", "unknown"]
    assert [item.name for item in read.resources] == list(held.resources)
    assert [item.resource.value for item in read.resources] == [bytes(size) for size in sizes]
    assert [item.version for item in read.resources] == [held.version_of(n) for n in held.resources]


def test_body_is_encoded_once_for_a_version_and_what_is_named() -> None:
    made = []

    def body(response: Response) -> bytes:
        made.append(response)
        return b""

    encoder = ResponseEncoder(body)
    first, second = resources("v1", 1, 2), resources("v2", 1, 2)
    raws = {encoder.encode(Response(first, ("r1",)), f"n.{number}") for number in range(60)}
    assert (len(raws), len(made)) == (60, 1)
    others = [
        Response(first, ("r1", "r2")),
        Response(second, ("r1", "r2")),
        Response(second, ("r1", "r2"), ("r3",)),
    ]
    for other in others:
        encoder.encode(other, "n")
    assert made[1:] == others
