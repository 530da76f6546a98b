"""Small resources of every type, real where the server looks inside."""

from __future__ import annotations

from envoy_data_plane.envoy.config.cluster.v3 import (
    Cluster,
    ClusterDiscoveryType,
    ClusterEdsClusterConfig,
)
from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment
from envoy_data_plane.google.protobuf import Any

from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ROSTER, TABLE
from isocost.v1.roster_pb2 import Roster
from isocost.v1.table_pb2 import Table


def any_body(type_url: str, value: bytes) -> bytes:
    return bytes(Any(type_url=type_url, value=value))


def opaque(type_url: str, **resources: bytes) -> TypeResources:
    """Resources whose content only the test looks at."""
    bodies = {name: any_body(type_url, value) for name, value in resources.items()}
    return TypeResources.hashed(type_url, bodies)


def clusters(*names: str, marker: int = 0, service: str = "") -> TypeResources:
    """EDS clusters, of the service name if given; another marker is other content."""
    bodies = {}
    for name in names:
        cluster = Cluster(
            name=name,
            alt_stat_name=f"marker-{marker}",
            type=ClusterDiscoveryType.EDS,
            eds_cluster_config=ClusterEdsClusterConfig(service_name=service),
        )
        bodies[name] = any_body(CLUSTER, bytes(cluster))
    return TypeResources.hashed(CLUSTER, bodies)


def endpoints(*names: str) -> TypeResources:
    bodies = {
        name: any_body(ENDPOINTS, bytes(ClusterLoadAssignment(cluster_name=name))) for name in names
    }
    return TypeResources.hashed(ENDPOINTS, bodies)


def roster(version: int) -> TypeResources:
    value = Roster(version=version).SerializeToString()
    return TypeResources.hashed(ROSTER, {"fleet": any_body(ROSTER, value)})


def table(version: int, roster_version: int = 1, nodes: int = 1) -> TypeResources:
    message = Table(
        version=version,
        roster_version=roster_version,
        weight=[1.0] * nodes,
        entropy=[0.5] * nodes,
        state=bytes([2] * nodes),
    )
    body = any_body(TABLE, message.SerializeToString())
    return TypeResources(TABLE, str(version), {"fleet": body})
