"""CDS: the cluster of all nodes, steered by the filter's header and safe without it."""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    CircuitBreakersThresholdsRetryBudget,
    Cluster,
    ClusterCommonLbConfig,
    ClusterDiscoveryType,
    ClusterEdsClusterConfig,
    LoadBalancingPolicy,
    LoadBalancingPolicyPolicy,
    UpstreamConnectionOptions,
)
from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as RemoveHeader
from envoy_data_plane.envoy.config.core.v3 import (
    AggregatedConfigSource,
    ApiVersion,
    ConfigSource,
    Http1ProtocolOptions,
    HttpProtocolOptions,
    TcpKeepalive,
    TypedExtensionConfig,
)
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import (
    HeaderMutation,
    Mutations,
)
from envoy_data_plane.envoy.extensions.filters.http.upstream_codec.v3 import UpstreamCodec
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.envoy.extensions.load_balancing_policies.least_request.v3 import LeastRequest
from envoy_data_plane.envoy.extensions.load_balancing_policies.override_host.v3 import (
    OverrideHost,
    OverrideHostOverrideHostSource,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptions as UpstreamHttp,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptionsExplicitHttpConfig as ExplicitHttp,
)
from envoy_data_plane.envoy.type.v3 import Percent
from envoy_data_plane.google.protobuf import Any

from isocost.config import EnvoySettings
from isocost.push.resources.names import DESTINATION_HEADER, NODE_CLUSTER

#: With no word on the endpoints the cluster starts empty (503) instead of holding up Envoy.
_EDS_WAIT = timedelta(milliseconds=500)
#: uvicorn, under most engines, closes a connection that was idle for 5 s. Ours goes first: a
#: request sent into that closing would count as a fault of the node. Open streams are not idle.
_IDLE_CONNECTION = timedelta(seconds=4)
#: A machine that lost power is noticed in 10 + 3 * 5 s, also under a stream that waits in silence.
_KEEPALIVE = TcpKeepalive(keepalive_time=10, keepalive_interval=5, keepalive_probes=3)
_UPSTREAM_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def node_cluster(settings: EnvoySettings) -> tuple[str, bytes]:
    """The cluster's name and its serialised Any."""
    cluster = Cluster(
        name=NODE_CLUSTER,
        type=ClusterDiscoveryType.EDS,
        connect_timeout=timedelta(milliseconds=settings.connect_timeout_ms),
        eds_cluster_config=ClusterEdsClusterConfig(
            service_name=NODE_CLUSTER,
            eds_config=ConfigSource(
                ads=AggregatedConfigSource(),
                resource_api_version=ApiVersion.V3,
                initial_fetch_timeout=_EDS_WAIT,
            ),
        ),
        load_balancing_policy=_steering(),
        # In a panic Envoy would send to unhealthy nodes; here the states are obeyed to the end.
        common_lb_config=ClusterCommonLbConfig(healthy_panic_threshold=Percent(value=0.0)),
        circuit_breakers=_limits(settings),
        upstream_connection_options=UpstreamConnectionOptions(tcp_keepalive=_KEEPALIVE),
        typed_extension_protocol_options={_UPSTREAM_HTTP: Any.pack(_protocol())},
    )
    return NODE_CLUSTER, bytes(Any.pack(cluster))


def _steering() -> LoadBalancingPolicy:
    """The filter's list first; without one, or when it is used up, least_request."""
    fallback = _policy("envoy.load_balancing_policies.least_request", Any.pack(LeastRequest()))
    override = OverrideHost(
        override_host_sources=[OverrideHostOverrideHostSource(header=DESTINATION_HEADER)],
        fallback_policy=fallback,
    )
    return _policy("envoy.load_balancing_policies.override_host", Any.pack(override))


def _policy(name: str, config: Any) -> LoadBalancingPolicy:
    extension = TypedExtensionConfig(name=name, typed_config=config)
    return LoadBalancingPolicy(
        policies=[LoadBalancingPolicyPolicy(typed_extension_config=extension)]
    )


def _limits(settings: EnvoySettings) -> CircuitBreakers:
    """One limit for connections and requests (HTTP/1.1: the same), and the budget of retries."""
    limit = settings.max_concurrent_requests
    thresholds = CircuitBreakersThresholds(
        max_connections=limit,
        max_pending_requests=limit,
        max_requests=limit,
        retry_budget=CircuitBreakersThresholdsRetryBudget(
            budget_percent=Percent(value=settings.retry_budget_percent),
            min_retry_concurrency=settings.retry_min_concurrency,
        ),
    )
    return CircuitBreakers(thresholds=[thresholds])


def _protocol() -> UpstreamHttp:
    """HTTP/1.1, which every engine speaks; the destination header is removed on the way out."""
    removal = HeaderMutation(
        mutations=Mutations(request_mutations=[RemoveHeader(remove=DESTINATION_HEADER)])
    )
    return UpstreamHttp(
        explicit_http_config=ExplicitHttp(http_protocol_options=Http1ProtocolOptions()),
        common_http_protocol_options=HttpProtocolOptions(idle_timeout=_IDLE_CONNECTION),
        http_filters=[
            HttpFilter(
                name="envoy.filters.http.header_mutation",
                typed_config=Any.pack(removal),
            ),
            HttpFilter(
                name="envoy.filters.http.upstream_codec",
                typed_config=Any.pack(UpstreamCodec()),
            ),
        ],
    )
