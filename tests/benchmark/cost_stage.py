"""The gateways that are compared in CPU: equal Envoys that differ in their filter only.

All are the shipped set-up, less its access log, with the same control plane and the same 1,024
nodes behind them. The nodes are real: one Envoy that answers at once listens on all addresses of
the loopback network, and each node has one of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from isocost.config import BootstrapSettings
from isocost.demo.processes import Processes
from isocost.envoy.binary import find_envoy
from isocost.envoy.bootstrap import bootstrap, connection_manager
from isocost.model import Node
from tests.integration.harness.ports import free_port

NODES = 1_024
FLOOR = Path("build/isocost-floor.wasm")
_NODES_PER_HOST, _HOSTS_PER_RACK = 8, 4

#: What an engine answers, in small.
_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "The answer is forty-two."},
        }
    ],
    "usage": {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57},
}


def fleet(port: int) -> list[Node]:
    """Nodes 127.1.x.y:port, 8 to a host and 4 hosts to a rack."""
    return [
        Node(
            f"n-{number}",
            f"n-{number}@1",
            f"127.1.{number // 250}.{number % 250 + 1}:{port}",
            f"r-{number // _NODES_PER_HOST // _HOSTS_PER_RACK}",
            f"h-{number // _NODES_PER_HOST}",
        )
        for number in range(NODES)
    ]


def start_envoy(
    processes: Processes, name: str, config: Mapping[str, Any], folder: Path, level: str = "warning"
) -> int:
    """An Envoy with one worker; its pid."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    command = [str(find_envoy()), "--config-path", str(path), "--concurrency", "1"]
    return processes.start(name, [*command, "--disable-hot-restart", "--log-level", level])


def gateway(listen: int, admin: int, control_plane: int, variant: str) -> dict[str, Any]:
    """The shipped bootstrap with the filter of a variant: "none", "floor" or "ours"."""
    config = bootstrap(
        BootstrapSettings(
            node_id=f"bench-{variant}",
            listen=f"127.0.0.1:{listen}",
            admin=f"127.0.0.1:{admin}",
            control_plane=f"127.0.0.1:{control_plane}",
        )
    )
    manager = connection_manager(config)
    del manager["access_log"]
    filters = manager["http_filters"]
    if variant == "none":
        del filters[0]
    elif variant == "floor":
        plugin = filters[0]["config_discovery"]["default_config"]
        filters[0] = _static_filter(plugin, FLOOR)
    return config


def answering(listen: int) -> dict[str, Any]:
    """An Envoy that answers each request itself, on all addresses of this machine. It reads the
    body first: an answer before that closes the connection.
    """
    buffer = {
        "name": "buffer",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer",
            "max_request_bytes": 1 << 20,
        },
    }
    return _direct("0.0.0.0", listen, [buffer])


def alone(listen: int, wasm: Path | None) -> dict[str, Any]:
    """An Envoy without control plane and nodes that answers itself, with a filter or without."""
    plugin = _shipped_plugin()
    return _direct("127.0.0.1", listen, [_static_filter(plugin, wasm)] if wasm else [])


def _shipped_plugin() -> dict[str, Any]:
    filters = connection_manager(bootstrap(BootstrapSettings()))["http_filters"]
    plugin: dict[str, Any] = filters[0]["config_discovery"]["default_config"]
    return plugin


def _static_filter(plugin: dict[str, Any], wasm: Path) -> dict[str, Any]:
    plugin["config"]["vm_config"]["code"]["local"]["filename"] = str(wasm)
    return {"name": "wasm", "typed_config": plugin}


def _direct(host: str, listen: int, filters: list[dict[str, Any]]) -> dict[str, Any]:
    types = "type.googleapis.com/envoy.extensions.filters"
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{types}.http.router.v3.Router"},
    }
    answer = {
        "match": {"prefix": "/"},
        "direct_response": {"status": 200, "body": {"inline_string": json.dumps(_ANSWER)}},
        "response_headers_to_add": [
            {
                "header": {"key": "content-type", "value": "application/json"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
    }
    manager = {
        "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "nodes",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [answer]}]},
        "http_filters": [*filters, router],
    }
    chain = {
        "filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
        ]
    }
    listener = {
        "name": "nodes",
        "address": {"socket_address": {"address": host, "port_value": listen}},
        "filter_chains": [chain],
    }
    return {"static_resources": {"listeners": [listener]}}


def free_gateway_ports() -> tuple[int, int]:
    """Listener and admin."""
    return free_port(), free_port()
