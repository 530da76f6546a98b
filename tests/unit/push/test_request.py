"""Requests are read as envoy_data_plane writes them, and nothing else is taken for one."""

import hypothesis.strategies as st
import pytest
from envoy_data_plane.envoy.config.core.v3 import (
    Extension,
    Locality,
    Node,
)
from envoy_data_plane.envoy.service.discovery.v3 import (
    DeltaDiscoveryRequest,
    DiscoveryRequest,
    ResourceLocator,
)
from envoy_data_plane.google.rpc import Status
from hypothesis import given, settings

from isocost.push.request import (
    ERROR_TEXT_LIMIT,
    DeltaRequest,
    Request,
    RequestError,
    parse_delta_request,
    parse_request,
)

TEXT = st.text(max_size=40)


@given(
    version=TEXT,
    nonce=TEXT,
    names=st.lists(TEXT, max_size=4),
    type_url=TEXT,
    node_id=st.none() | TEXT,
    error=st.none() | TEXT,
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_every_request_of_the_library_is_read_as_it_was_written(
    version: str,
    nonce: str,
    names: list[str],
    type_url: str,
    node_id: str | None,
    error: str | None,
) -> None:
    node = None
    if node_id is not None:
        node = Node(id=node_id, cluster="edge", locality=Locality(zone="rack-1"))
        node.extensions = [Extension(name="envoy.filters.http.router", category="x")] * 3
    raw = bytes(
        DiscoveryRequest(
            version_info=version,
            node=node,
            resource_names=names,
            type_url=type_url,
            response_nonce=nonce,
            error_detail=None if error is None else Status(code=13, message=error),
            resource_locators=[ResourceLocator(name="new", dynamic_parameters={"k": "v"})],
        )
    )
    one_line = None if error is None else " ".join(error.split())
    assert parse_request(raw) == Request(type_url, tuple(names), nonce, one_line, node_id or "")


def test_fields_of_another_kind_are_stepped_over() -> None:
    raw = b"\x78\x96\x01" + b"\x81\x01" + bytes(8) + b"\x85\x01" + bytes(4) + b"\x22\x01t"
    assert parse_request(raw) == Request("t")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x22",
        b"\x22\x05t",
        b"\x80",
        b"\x80" * 11,
        b"\x23",
        b"\x02\x00",
        b"\x22\x01\xff",
        b"\x09ab",
    ],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError):
        parse_request(raw)


def test_node_is_checked_as_well() -> None:
    with pytest.raises(RequestError):
        parse_request(b"\x12\x02\x0a\x05")


@given(st.binary(max_size=200))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        request = parse_request(raw)
    except RequestError:
        return
    assert isinstance(request, Request)


def test_long_error_text_keeps_its_end_in_one_line() -> None:
    text = "name: x\n" * 10_000 + ": the  reason"
    raw = bytes(DiscoveryRequest(type_url="t", error_detail=Status(message=text)))
    error = parse_request(raw).error
    assert error is not None
    assert error.endswith("name: x : the reason")
    assert len(error) == ERROR_TEXT_LIMIT


@given(
    nonce=TEXT,
    subscribe=st.lists(TEXT, max_size=3),
    unsubscribe=st.lists(TEXT, max_size=3),
    versions=st.dictionaries(TEXT, TEXT, max_size=3),
    type_url=TEXT,
    node_id=st.none() | TEXT,
    error=st.none() | TEXT,
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_every_delta_request_of_the_library_is_read_as_it_was_written(
    nonce: str,
    subscribe: list[str],
    unsubscribe: list[str],
    versions: dict[str, str],
    type_url: str,
    node_id: str | None,
    error: str | None,
) -> None:
    raw = bytes(
        DeltaDiscoveryRequest(
            node=None if node_id is None else Node(id=node_id, cluster="edge"),
            type_url=type_url,
            resource_names_subscribe=subscribe,
            resource_names_unsubscribe=unsubscribe,
            initial_resource_versions=versions,
            response_nonce=nonce,
            error_detail=None if error is None else Status(code=13, message=error),
            resource_locators_subscribe=[ResourceLocator(name="new")],
        )
    )
    one_line = None if error is None else " ".join(error.split())
    expected = DeltaRequest(
        type_url, tuple(subscribe), tuple(unsubscribe), versions, nonce, one_line, node_id or ""
    )
    assert parse_delta_request(raw) == expected


@pytest.mark.parametrize("raw", [b"\x12", b"\x12\x05t", b"\x2a\x02\x0a\x05", b"\x1a\x01\xff"])
def test_what_is_no_delta_message_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError, match="DeltaDiscoveryRequest"):
        parse_delta_request(raw)
