"""Responses read back as they were meant, and are encoded once for all streams."""

import pytest
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryResponse

from isocost.push import encode
from isocost.push.encode import ResponseEncoder
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import ROUTES
from tests.contract.xds_resources import any_body


def resources(version: str, *sizes: int) -> TypeResources:
    bodies = {f"r{size}": any_body(ROUTES, bytes(size)) for size in sizes}
    return TypeResources(ROUTES, version, bodies)


@pytest.mark.parametrize("sizes", [(), (0,), (1, 127, 128), (16_383, 16_384), (3_000_000,)])
def test_response_reads_back(sizes: tuple[int, ...]) -> None:
    held = resources("v1", *sizes)
    response = DiscoveryResponse.parse(ResponseEncoder().encode(held, tuple(held.resources), "n.1"))
    assert (response.version_info, response.type_url, response.nonce) == ("v1", ROUTES, "n.1")
    assert [body.value for body in response.resources] == [bytes(size) for size in sizes]
    assert all(body.type_url == ROUTES for body in response.resources)


def test_only_the_named_are_in_it() -> None:
    raw = ResponseEncoder().encode(resources("v1", 1, 2, 3), ("r1", "r3"), "n")
    assert [len(body.value) for body in DiscoveryResponse.parse(raw).resources] == [1, 3]


def test_body_is_encoded_once_for_a_version_and_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = []

    def counted(version_info: str, type_url: str) -> DiscoveryResponse:
        heads.append(version_info)
        return DiscoveryResponse(version_info=version_info, type_url=type_url)

    monkeypatch.setattr(encode, "DiscoveryResponse", counted)
    encoder = ResponseEncoder()
    first, second = resources("v1", 1, 2), resources("v2", 1, 2)
    raws = {encoder.encode(first, ("r1",), f"n.{number}") for number in range(60)}
    assert (len(raws), len(heads)) == (60, 1)
    for held, names in ((first, ("r1", "r2")), (second, ("r1", "r2"))):
        raw = encoder.encode(held, names, "n")
        response = DiscoveryResponse.parse(raw)
        assert (response.version_info, len(response.resources)) == (held.version, 2)
    assert len(heads) == 3
