"""ECDS: the filter with its slow settings; the same VM as the bootstrap's default_config."""

from __future__ import annotations

import json
from datetime import timedelta

from envoy_data_plane.envoy.config.core.v3 import (
    AsyncDataSource,
    BackoffStrategy,
    DataSource,
    TypedExtensionConfig,
)
from envoy_data_plane.envoy.extensions.filters.http.wasm.v3 import Wasm
from envoy_data_plane.envoy.extensions.wasm.v3 import (
    FailurePolicy,
    PluginConfig,
    ReloadConfig,
    VmConfig,
)
from envoy_data_plane.google.protobuf import Any, StringValue

from isocost.config import EnvoySettings, FilterSettings
from isocost.files import WASM
from isocost.push.resources.names import CONTROL_PLANE_CLUSTER, FILTER

#: A worker whose VM failed is back after 10 ms; one that fails again and again, once a second.
_BACK_OFF = BackoffStrategy(
    base_interval=timedelta(milliseconds=10), max_interval=timedelta(seconds=1)
)


def plugin_configuration(settings: FilterSettings) -> str:
    """The JSON that the filter parses."""
    return json.dumps(
        {
            "policy": settings.policy,
            "max_table_age_ms": settings.max_table_age_ms,
            "alternates": settings.alternates,
            "profile_limit_bytes": settings.profile_limit_bytes,
            "model_from": settings.model_from,
            "user_from": settings.user_from,
            # The filter's parser knows whole numbers and texts only.
            "projection": int(settings.projection),
            "dispersion": int(settings.dispersion),
            "control_plane_cluster": CONTROL_PLANE_CLUSTER,
        }
    )


def extension_config(envoy: EnvoySettings, settings: FilterSettings) -> tuple[str, bytes]:
    """The filter's name and its serialised Any."""
    code = DataSource(filename=envoy.wasm_path or str(WASM))
    plugin = PluginConfig(
        name=FILTER,
        root_id=FILTER,
        failure_policy=FailurePolicy.FAIL_RELOAD,
        reload_config=ReloadConfig(backoff=_BACK_OFF),
        allow_on_headers_stop_iteration=True,
        configuration=Any.pack(StringValue(value=plugin_configuration(settings))),
        vm_config=VmConfig(
            vm_id=FILTER,
            runtime="envoy.wasm.runtime.v8",
            code=AsyncDataSource(local=code),
        ),
    )
    resource = TypedExtensionConfig(name=FILTER, typed_config=Any.pack(Wasm(config=plugin)))
    return FILTER, bytes(Any.pack(resource))
