"""The bootstrap: one file for a checkout and for an installation, at one with the resources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from envoy_data_plane.envoy.config.core.v3 import TypedExtensionConfig
from envoy_data_plane.envoy.extensions.filters.http.wasm.v3 import Wasm
from envoy_data_plane.google.protobuf import Any as AnyMessage

from isocost.config import BootstrapSettings, EnvoySettings, FilterSettings
from isocost.config_file import parse
from isocost.envoy.bootstrap import bootstrap, bootstrap_yaml, connection_manager
from isocost.errors import ConfigError
from isocost.files import BOOTSTRAP, WASM
from isocost.push.resources import names
from isocost.push.resources.extension_config import extension_config

_PROJECT = Path(__file__).parents[3]


def _plugin(data: dict[str, Any]) -> dict[str, Any]:
    (isocost, router) = connection_manager(data)["http_filters"]
    assert (isocost["name"], router["name"]) == (names.FILTER, "envoy.filters.http.router")
    config: dict[str, Any] = isocost["config_discovery"]["default_config"]["config"]
    return config


def test_the_installed_file_is_the_one_in_envoy() -> None:
    assert BOOTSTRAP.read_bytes() == (_PROJECT / "envoy" / "bootstrap.yaml").read_bytes()


def test_the_file_runs_from_the_root_of_the_project() -> None:
    code = _plugin(yaml.safe_load(BOOTSTRAP.read_text()))["vm_config"]["code"]["local"]
    assert _PROJECT / code["filename"] == _PROJECT / WASM.relative_to(_PROJECT)


def test_the_defaults_change_nothing_but_the_path_of_the_filter() -> None:
    shipped = yaml.safe_load(BOOTSTRAP.read_text())
    _plugin(shipped)["vm_config"]["code"]["local"]["filename"] = str(WASM)
    assert bootstrap(BootstrapSettings()) == shipped


def test_every_value_of_a_machine_is_filled_in() -> None:
    text = bootstrap_yaml(
        BootstrapSettings(
            node_id="edge-9",
            listen="[::]:8080",
            admin="127.0.0.1:9999",
            control_plane="control.example:18001",
            wasm_path="/opt/isocost.wasm",
        )
    )
    data = yaml.safe_load(text)
    assert data["node"]["id"] == "edge-9"
    assert _socket(data["admin"]) == ("127.0.0.1", 9999)
    (listener,) = data["static_resources"]["listeners"]
    assert _socket(listener) == ("::", 8080)
    (cluster,) = data["static_resources"]["clusters"]
    (locality,) = cluster["load_assignment"]["endpoints"]
    (endpoint,) = locality["lb_endpoints"]
    assert _socket(endpoint["endpoint"]) == ("control.example", 18001)
    assert _plugin(data)["vm_config"]["code"]["local"]["filename"] == "/opt/isocost.wasm"


@pytest.mark.parametrize(
    ("field", "value"),
    [("listen", "0.0.0.0:70000"), ("listen", "edge:80"), ("admin", "9901"), ("node_id", "")],
)
def test_a_value_that_cannot_be_is_refused_by_name(field: str, value: str) -> None:
    with pytest.raises(ConfigError, match=field):
        parse(BootstrapSettings, {field: value}, "command line")


def test_the_bootstrap_uses_the_names_of_the_resources() -> None:
    data = bootstrap(BootstrapSettings())
    manager = connection_manager(data)
    (early,) = manager["early_header_mutation_extensions"]
    mutations = early["typed_config"]["mutations"]
    # A client on the same machine could set Envoy's retries and time limits otherwise.
    for header in (
        names.DESTINATION_HEADER,
        names.PREVIOUS_NODE_HEADER,
        "x-envoy-max-retries",
        "x-envoy-retry-on",
    ):
        assert {"remove": header} in mutations
    assert manager["rds"]["route_config_name"] == names.ROUTES
    (cluster,) = data["static_resources"]["clusters"]
    assert cluster["name"] == names.CONTROL_PLANE_CLUSTER
    (service,) = data["dynamic_resources"]["ads_config"]["grpc_services"]
    assert service["envoy_grpc"]["cluster_name"] == names.CONTROL_PLANE_CLUSTER


def test_the_default_filter_and_the_pushed_one_are_the_same_vm_and_fail_alike() -> None:
    _, encoded = extension_config(EnvoySettings(), FilterSettings())
    resource = TypedExtensionConfig.parse(AnyMessage.parse(encoded).value)
    pushed = Wasm.parse(resource.typed_config.value).to_dict()["config"]
    pushed.pop("configuration")
    shipped = _plugin(bootstrap(BootstrapSettings()))
    back_off = shipped["reload_config"]["backoff"]
    pushed_back_off = pushed["reloadConfig"]["backoff"]
    assert {key: float(value.rstrip("s")) for key, value in back_off.items()} == {
        "base_interval": float(pushed_back_off["baseInterval"].rstrip("s")),
        "max_interval": float(pushed_back_off["maxInterval"].rstrip("s")),
    }
    assert pushed["vmConfig"] == {
        "vmId": shipped["vm_config"]["vm_id"],
        "runtime": shipped["vm_config"]["runtime"],
        "code": shipped["vm_config"]["code"],
    }
    assert pushed["failurePolicy"] == shipped["failure_policy"]
    assert pushed["rootId"] == shipped["root_id"]
    assert pushed["name"] == shipped["name"]
    assert pushed["allowOnHeadersStopIteration"] is shipped["allow_on_headers_stop_iteration"]


def _socket(holder: dict[str, Any]) -> tuple[str, int]:
    address = holder["address"]["socket_address"]
    return address["address"], address["port_value"]
