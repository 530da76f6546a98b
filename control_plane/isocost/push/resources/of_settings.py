"""What Envoy is told of the settings: the node cluster, the routes to it, and the filter."""

from __future__ import annotations

from isocost.config import EnvoySettings, FilterSettings
from isocost.push.resources.cluster import node_cluster
from isocost.push.resources.extension_config import extension_config
from isocost.push.resources.routes import routes
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, EXTENSION, ROUTES


def settings_resources(
    envoy: EnvoySettings, filter_settings: FilterSettings
) -> tuple[TypeResources, ...]:
    """All types that change with the settings only; equal settings have equal versions."""
    return (
        TypeResources.hashed(CLUSTER, dict([node_cluster(envoy)])),
        TypeResources.hashed(ROUTES, dict([routes(envoy, filter_settings)])),
        TypeResources.hashed(EXTENSION, dict([extension_config(envoy, filter_settings)])),
    )
