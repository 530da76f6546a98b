"""CDS, RDS and ECDS: the values that keep LLM traffic alive are really set."""

from __future__ import annotations

import json
from datetime import timedelta

from envoy_data_plane.envoy.config.cluster.v3 import Cluster
from envoy_data_plane.envoy.config.core.v3 import TypedExtensionConfig
from envoy_data_plane.envoy.config.route.v3 import RouteConfiguration
from envoy_data_plane.envoy.extensions.filters.http.wasm.v3 import Wasm
from envoy_data_plane.envoy.extensions.wasm.v3 import FailurePolicy, PluginConfig
from envoy_data_plane.google.protobuf import Any, StringValue

from isocost.config import EnvoySettings, FilterSettings
from isocost.files import WASM
from isocost.push.resources.cluster import node_cluster
from isocost.push.resources.extension_config import extension_config
from isocost.push.resources.routes import routes
from isocost.push.type_urls import CLUSTER, EXTENSION, ROUTES


def _cluster(settings: EnvoySettings) -> Cluster:
    name, encoded = node_cluster(settings)
    resource = Any.parse(encoded)
    assert (name, resource.type_url) == ("isocost_nodes", CLUSTER)
    return Cluster.parse(resource.value)


def _routes(envoy: EnvoySettings, settings: FilterSettings) -> RouteConfiguration:
    name, encoded = routes(envoy, settings)
    resource = Any.parse(encoded)
    assert (name, resource.type_url) == ("isocost_routes", ROUTES)
    return RouteConfiguration.parse(resource.value)


def _plugin(envoy: EnvoySettings, settings: FilterSettings) -> PluginConfig:
    name, encoded = extension_config(envoy, settings)
    resource = Any.parse(encoded)
    assert (name, resource.type_url) == ("isocost", EXTENSION)
    typed = TypedExtensionConfig.parse(resource.value)
    assert typed.name == "isocost"
    config = Wasm.parse(typed.typed_config.value).config
    assert config is not None
    return config


def test_limits_come_from_the_settings() -> None:
    cluster = _cluster(
        EnvoySettings(
            connect_timeout_ms=250,
            max_concurrent_requests=123_456,
            retry_budget_percent=35.0,
            retry_min_concurrency=7,
        )
    )
    assert cluster.connect_timeout == timedelta(milliseconds=250)
    (limits,) = cluster.circuit_breakers.thresholds
    assert (limits.max_connections, limits.max_pending_requests, limits.max_requests) == (
        123_456,
        123_456,
        123_456,
    )
    assert limits.retry_budget.budget_percent.value == 35.0
    assert limits.retry_budget.min_retry_concurrency == 7


def test_panic_is_switched_off_and_not_left_at_its_default() -> None:
    threshold = _cluster(EnvoySettings()).common_lb_config.healthy_panic_threshold
    assert threshold is not None
    assert threshold.value == 0.0


def test_an_answer_has_no_time_limit_but_silence_has() -> None:
    settings = EnvoySettings(stream_idle_timeout_s=77, request_body_buffer_limit_bytes=1234)
    (host,) = _routes(settings, FilterSettings()).virtual_hosts
    assert (host.name, host.domains) == ("llm", ["*"])
    (route,) = host.routes
    assert route.route.timeout == timedelta(0)
    assert route.route.idle_timeout == timedelta(seconds=77)
    assert route.request_body_buffer_limit == 1234


def test_retries_equal_the_alternates_and_none_is_really_none() -> None:
    for alternates in (0, 2, 5):
        configuration = _routes(EnvoySettings(), FilterSettings(alternates=alternates))
        action = configuration.virtual_hosts[0].routes[0].route
        # An absent number would mean one retry to Envoy.
        assert action.retry_policy.num_retries == alternates
        assert action.host_rewrite_literal is None


def test_the_filter_gets_its_settings_as_json() -> None:
    settings = FilterSettings(
        policy="min_entropy",
        max_table_age_ms=750,
        alternates=1,
        profile_limit_bytes=1024,
        model_from="jwt:model,body",
        user_from="jwt:sub",
        projection=False,
    )
    plugin = _plugin(EnvoySettings(), settings)
    assert json.loads(StringValue.parse(plugin.configuration.value).value) == {
        "policy": "min_entropy",
        "max_table_age_ms": 750,
        "alternates": 1,
        "profile_limit_bytes": 1024,
        "model_from": "jwt:model,body",
        "user_from": "jwt:sub",
        "projection": 0,
        "dispersion": 1,
        "control_plane_cluster": "isocost_control_plane",
    }


def test_a_filter_that_failed_is_loaded_again_at_once() -> None:
    plugin = _plugin(EnvoySettings(), FilterSettings())
    assert plugin.failure_policy is FailurePolicy.FAIL_RELOAD
    assert plugin.reload_config.backoff.base_interval == timedelta(milliseconds=10)
    assert plugin.allow_on_headers_stop_iteration is True


def test_the_filters_file_is_the_installed_one_unless_the_settings_name_another() -> None:
    def path(settings: EnvoySettings) -> str | None:
        return _plugin(settings, FilterSettings()).vm_config.code.local.filename

    assert path(EnvoySettings()) == str(WASM)
    assert path(EnvoySettings(wasm_path="/opt/isocost.wasm")) == "/opt/isocost.wasm"
