"""Envoy's bootstrap with one machine's addresses in it."""

from __future__ import annotations

from typing import Any

import yaml

from isocost.config import BootstrapSettings
from isocost.files import BOOTSTRAP, WASM


def bootstrap(settings: BootstrapSettings) -> dict[str, Any]:
    """The shipped bootstrap as plain data, with ``settings`` filled in."""
    data: dict[str, Any] = yaml.safe_load(BOOTSTRAP.read_text(encoding="utf-8"))
    static = data["static_resources"]
    data["node"]["id"] = settings.node_id
    data["admin"]["address"] = _address(settings.admin)
    (listener,) = static["listeners"]
    listener["address"] = _address(settings.listen)
    (control_plane,) = static["clusters"]
    (locality,) = control_plane["load_assignment"]["endpoints"]
    (endpoint,) = locality["lb_endpoints"]
    endpoint["endpoint"]["address"] = _address(settings.control_plane)
    plugin = connection_manager(data)["http_filters"][0]["config_discovery"]["default_config"]
    code = plugin["config"]["vm_config"]["code"]["local"]
    code["filename"] = settings.wasm_path or str(WASM)
    return data


def bootstrap_yaml(settings: BootstrapSettings) -> str:
    """``bootstrap`` as the text of a file that `envoy -c` reads."""
    return yaml.safe_dump(bootstrap(settings), sort_keys=False, width=100)


def connection_manager(data: dict[str, Any]) -> dict[str, Any]:
    """The HTTP connection manager of the bootstrap's only listener, for changes in place."""
    (listener,) = data["static_resources"]["listeners"]
    (chain,) = listener["filter_chains"]
    (manager,) = chain["filters"]
    typed_config: dict[str, Any] = manager["typed_config"]
    return typed_config


def _address(endpoint: str) -> dict[str, Any]:
    host, _, port = endpoint.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}
