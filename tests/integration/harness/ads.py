"""A control plane for Envoy alone: serves the resources that a test publishes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import grpc.aio

from isocost.config import EnvoySettings, FilterSettings
from isocost.push import observation_service
from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.push.resources.cluster import node_cluster
from isocost.push.resources.endpoints import EndpointEncoder
from isocost.push.resources.extension_config import extension_config
from isocost.push.resources.routes import routes
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, ENDPOINTS, EXTENSION, ROUTES
from tests.integration.harness.endpoints import NodeEndpoint, encode
from tests.integration.harness.observations import Observations
from tests.integration.harness.ports import free_port

#: What the filter is told where a test does not say: a draw by weight needs nothing but a table.
WEIGHTED_RANDOM = FilterSettings(policy="weighted_random")


class AdsServer:
    """``cache`` may be published to directly, for rosters and tables; ``observations`` has what
    the filter reported.
    """

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self.cache = Cache()
        self.service = AdsService(self.cache)
        self.observations = Observations()
        self._encoder = EndpointEncoder()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> Self:
        self._server = grpc.aio.server(options=server_options())
        self.service.add_to(self._server)
        observation_service.add_to(self._server, self.observations)
        self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()
        return self

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    def publish(
        self,
        endpoints: Sequence[NodeEndpoint],
        envoy: EnvoySettings | None = None,
        filter_settings: FilterSettings | None = None,
    ) -> None:
        """The cluster, its endpoints, the routes and the filter's settings, in one step."""
        envoy = envoy or EnvoySettings()
        filter_settings = filter_settings or WEIGHTED_RANDOM
        self.cache.publish(
            _one(CLUSTER, node_cluster(envoy)),
            _one(ENDPOINTS, encode(self._encoder, endpoints)),
            _one(ROUTES, routes(envoy, filter_settings)),
            _one(EXTENSION, extension_config(envoy, filter_settings)),
        )

    def publish_endpoints(self, endpoints: Sequence[NodeEndpoint]) -> None:
        self.cache.publish(_one(ENDPOINTS, encode(self._encoder, endpoints)))


def _one(type_url: str, resource: tuple[str, bytes]) -> TypeResources:
    name, content = resource
    return TypeResources.hashed(type_url, {name: content})
