"""Under which name a cluster's endpoints are served: read once for each content."""

from __future__ import annotations

from functools import lru_cache

from envoy_data_plane.envoy.config.cluster.v3 import Cluster, ClusterDiscoveryType
from google.protobuf.any_pb2 import Any


# As many entries as one snapshot asks for again and again without having changed.
@lru_cache(maxsize=256)
def eds_name(cluster: bytes) -> str | None:
    """The EDS resource of a cluster, given as its serialised Any; None for other kinds of cluster.

    DecodeError: it is no Any.
    """
    message = Cluster.parse(Any.FromString(cluster).value)
    if message.type != ClusterDiscoveryType.EDS:
        return None
    config = message.eds_cluster_config
    return (config.service_name if config else "") or message.name
