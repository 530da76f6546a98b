"""RDS: one route for everything, with the time limits and retries that LLM traffic needs."""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.route.v3 import (
    RetryPolicy,
    RetryPolicyRetryBackOff,
    RetryPolicyRetryHostPredicate,
    Route,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts.v3 import PreviousHostsPredicate
from envoy_data_plane.google.protobuf import Any

from isocost.config import EnvoySettings, FilterSettings
from isocost.push.resources.names import NODE_CLUSTER, ROUTES, VIRTUAL_HOST

#: Whatever ends before the first byte of an answer: by Envoy's definition a 5xx, a refused
#: connection, a reset. The client has seen nothing yet, and another node may well do it. Not 429:
#: there the client must slow down.
_RETRY_ON = "5xx"
#: The next node is another machine, so there is nothing to wait for; Envoy draws the pause at
#: random below this bound.
_RETRY_PAUSE = timedelta(milliseconds=5)
_RETRY_PAUSE_MAX = timedelta(milliseconds=50)
#: Redraws of the fallback policy when it chooses a node that already failed this request: of two
#: nodes it misses the good one once in 2^11.
_REDRAWS = 10


def routes(envoy: EnvoySettings, filter_settings: FilterSettings) -> tuple[str, bytes]:
    """The route configuration's name and its serialised Any."""
    action = RouteAction(
        cluster=NODE_CLUSTER,
        # No limit on the whole answer: it may be an hour of tokens. Silence has one.
        timeout=timedelta(0),
        idle_timeout=timedelta(seconds=envoy.stream_idle_timeout_s),
        retry_policy=_retries(filter_settings.alternates),
    )
    route = Route(
        match=RouteMatch(prefix="/"),
        route=action,
        # How much of a body Envoy keeps for the filter and for a retry.
        request_body_buffer_limit=envoy.request_body_buffer_limit_bytes,
    )
    host = VirtualHost(
        name=VIRTUAL_HOST,
        domains=["*"],
        routes=[route],
        # x-envoy-attempt-count in the answer: a client can tell which requests were retried.
        include_attempt_count_in_response=True,
    )
    return ROUTES, bytes(Any.pack(RouteConfiguration(name=ROUTES, virtual_hosts=[host])))


def _retries(alternates: int) -> RetryPolicy:
    """As many retries as the filter lists alternates: beyond the list Envoy chooses by itself."""
    return RetryPolicy(
        retry_on=_RETRY_ON,
        num_retries=alternates,
        retry_back_off=RetryPolicyRetryBackOff(
            base_interval=_RETRY_PAUSE, max_interval=_RETRY_PAUSE_MAX
        ),
        retry_host_predicate=[
            RetryPolicyRetryHostPredicate(
                name="envoy.retry_host_predicates.previous_hosts",
                typed_config=Any.pack(PreviousHostsPredicate()),
            )
        ],
        host_selection_retry_max_attempts=_REDRAWS,
    )
