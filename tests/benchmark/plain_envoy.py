"""Envoy as one would use it without us: the same nodes behind one of its own policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Those of the shipped set-up, so that only the policy differs.
_LIMIT = 100_000


def plain_bootstrap(
    policy: str, listen: int, admin: int, node_addresses: Sequence[str]
) -> dict[str, Any]:
    """A static configuration; ``policy`` is Envoy's name: ROUND_ROBIN or LEAST_REQUEST."""
    return {
        "admin": {"address": _address("127.0.0.1", admin)},
        "static_resources": {
            "listeners": [
                {
                    "name": "ingress",
                    "address": _address("127.0.0.1", listen),
                    "filter_chains": [{"filters": [_connection_manager()]}],
                }
            ],
            "clusters": [_cluster(policy, node_addresses)],
        },
    }


def _connection_manager() -> dict[str, Any]:
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network."
            "http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "ingress",
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "nodes",
                        "domains": ["*"],
                        "routes": [
                            {
                                "match": {"prefix": "/"},
                                "route": {
                                    "cluster": "nodes",
                                    "timeout": "0s",
                                    "retry_policy": {
                                        "retry_on": "connect-failure,refused-stream,reset",
                                        "num_retries": 2,
                                    },
                                },
                            }
                        ],
                    }
                ]
            },
            "http_filters": [
                {"name": "envoy.filters.http.router", "typed_config": {"@type": router}}
            ],
        },
    }


def _cluster(policy: str, node_addresses: Sequence[str]) -> dict[str, Any]:
    return {
        "name": "nodes",
        "type": "STATIC",
        "connect_timeout": "1s",
        "lb_policy": policy,
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": _LIMIT,
                    "max_pending_requests": _LIMIT,
                    "max_requests": _LIMIT,
                }
            ]
        },
        "load_assignment": {
            "cluster_name": "nodes",
            "endpoints": [
                {
                    "lb_endpoints": [
                        {"endpoint": {"address": _address(host, int(port))}}
                        for host, _, port in (item.rpartition(":") for item in node_addresses)
                    ]
                }
            ],
        },
    }


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
