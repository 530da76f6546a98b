"""Changes of a bootstrap's HTTP filters: the filter taken out, or another one in its place."""

from __future__ import annotations

from typing import Any

from isocost.envoy.bootstrap import connection_manager

_HTTP_FILTERS = "type.googleapis.com/envoy.extensions.filters.http."


def without_filter(data: dict[str, Any]) -> dict[str, Any]:
    """The bootstrap of an Envoy that lacks the Isocost filter; the rest of it is as shipped."""
    filters = connection_manager(data)["http_filters"]
    assert filters.pop(0)["name"] == "isocost"
    return data


def steered_by(data: dict[str, Any], header: str) -> dict[str, Any]:
    """Instead of the filter's pick: the destinations that the request has in ``header``."""
    append = {
        "header": {"key": "x-isocost-destination", "value": f"%REQ({header})%"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    mutation = {
        "@type": _HTTP_FILTERS + "header_mutation.v3.HeaderMutation",
        "mutations": {"request_mutations": [{"append": append}]},
    }
    return _first(without_filter(data), "envoy.filters.http.header_mutation", mutation)


def aborting(data: dict[str, Any]) -> dict[str, Any]:
    """Envoy itself answers with the status that a request has in x-envoy-fault-abort-request."""
    fault = {
        "@type": _HTTP_FILTERS + "fault.v3.HTTPFault",
        "abort": {"header_abort": {}, "percentage": {"numerator": 100}},
    }
    return _first(without_filter(data), "envoy.filters.http.fault", fault)


def holding_bodies(data: dict[str, Any], limit_bytes: int) -> dict[str, Any]:
    """Envoy holds each body until it is whole, and refuses those over the limit."""
    buffer = {"@type": _HTTP_FILTERS + "buffer.v3.Buffer", "max_request_bytes": limit_bytes}
    return _first(without_filter(data), "envoy.filters.http.buffer", buffer)


def _first(data: dict[str, Any], name: str, typed_config: dict[str, Any]) -> dict[str, Any]:
    filters = connection_manager(data)["http_filters"]
    filters.insert(0, {"name": name, "typed_config": typed_config})
    return data
