"""What Isocost needs of an Envoy, each with a bootstrap that is refused where it is missing."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import yaml

#: The smallest module that Envoy loads as a filter: a memory, an allocator, the ABI's version.
_EMPTY_WASM = bytes.fromhex(
    "0061736d0100000001090260000060017f017f03030200010503010002073f03066d656d6f727902"
    "001770726f78795f6162695f76657273696f6e5f305f325f3100001870726f78795f6f6e5f6d656d"
    "6f72795f616c6c6f6361746500010a0a0202000b05004180080b"
)


@dataclass(frozen=True, slots=True)
class Capability:
    """``bootstrap`` is YAML; ``needed_for`` says what would not work without it."""

    name: str
    needed_for: str
    bootstrap: str


_LISTENER = """
node: {id: probe, cluster: probe}
static_resources:
  clusters: [{name: nodes}]
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: probe
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: nodes}}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
"""  # noqa: E501


def _listener(manager: str = "{}", http_filter: str = "", route: str = "{}") -> str:
    """A bootstrap whose one HTTP listener has the given parts, each YAML."""
    data = yaml.safe_load(_LISTENER)
    network_filter = data["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    config: dict[str, Any] = network_filter["typed_config"]
    config |= yaml.safe_load(manager)
    if http_filter:
        config["http_filters"].insert(0, {"name": "probe", **yaml.safe_load(http_filter)})
    config["route_config"]["virtual_hosts"][0]["routes"][0] |= yaml.safe_load(route)
    return yaml.safe_dump(data)


def _cluster(parts: str) -> str:
    """A bootstrap whose one cluster has the given parts, as YAML."""
    cluster = {"name": "nodes", **yaml.safe_load(parts)}
    return yaml.safe_dump({"static_resources": {"clusters": [cluster]}})


def _wasm(plugin: str = "") -> str:
    code = base64.b64encode(_EMPTY_WASM).decode()
    return f"""{{
      "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm,
      config: {{
        name: probe,
        vm_config: {{
          runtime: envoy.wasm.runtime.v8, code: {{local: {{inline_bytes: "{code}"}}}},
        }},
        {plugin}
      }}
    }}"""


def _wasm_filter(plugin: str = "") -> str:
    return _listener(http_filter=f"typed_config: {_wasm(plugin)}")


CAPABILITIES = (
    Capability("wasm filters on V8", "running the filter at all", _wasm_filter()),
    Capability(
        "wasm failure_policy FAIL_RELOAD",
        "bringing a worker back whose filter failed",
        _wasm_filter("failure_policy: FAIL_RELOAD, reload_config: {backoff: {base_interval: 1s}}"),
    ),
    Capability(
        "wasm allow_on_headers_stop_iteration",
        "letting the filter wait for a request's body",
        _wasm_filter("allow_on_headers_stop_iteration: true"),
    ),
    Capability(
        "HTTP filters by ECDS",
        "changing the filter's settings from the control plane",
        _listener(
            http_filter=f"""
            config_discovery:
              config_source: {{resource_api_version: V3, ads: {{}}}}
              type_urls: [type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm]
              apply_default_config_without_warming: true
              default_config: {_wasm()}
            """
        ),
    ),
    Capability(
        "early header mutation",
        "keeping clients from choosing their node by our header",
        _listener(
            manager="""
            early_header_mutation_extensions:
            - name: probe
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation
                mutations: [{remove: x-isocost-destination}]
            """  # noqa: E501
        ),
    ),
    Capability(
        "override_host load balancing",
        "sending a request to the node that the filter picked",
        _cluster(
            """
            load_balancing_policy:
              policies:
              - typed_extension_config:
                  name: envoy.load_balancing_policies.override_host
                  typed_config:
                    "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost
                    override_host_sources: [{header: x-isocost-destination}]
                    fallback_policy:
                      policies:
                      - typed_extension_config:
                          name: envoy.load_balancing_policies.least_request
                          typed_config:
                            "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest
            """  # noqa: E501
        ),
    ),
    Capability(
        "header mutation as an upstream filter",
        "keeping our header from the engines",
        _cluster(
            """
            typed_extension_protocol_options:
              envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
                "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
                explicit_http_config: {http_protocol_options: {}}
                http_filters:
                - name: probe
                  typed_config:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
                    mutations: {request_mutations: [{remove: x-isocost-destination}]}
                - name: envoy.filters.http.upstream_codec
                  typed_config:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec
            """  # noqa: E501
        ),
    ),
    Capability(
        "request_body_buffer_limit of a route",
        "taking prompts larger than 1 MiB",
        _listener(route="request_body_buffer_limit: 33554432"),
    ),
    Capability(
        "retry predicate previous_hosts",
        "leaving the node that failed when a request is retried",
        _listener(
            route="""
            route:
              cluster: nodes
              retry_policy:
                retry_on: 5xx
                retry_host_predicate:
                - name: envoy.retry_host_predicates.previous_hosts
                  typed_config:
                    "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate
            """  # noqa: E501
        ),
    ),
)
