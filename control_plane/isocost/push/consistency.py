"""Refuses a snapshot whose parts do not fit, before any client can see it."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from envoy_data_plane.envoy.config.cluster.v3 import Cluster, ClusterDiscoveryType
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from isocost.push.snapshot import Snapshot, SnapshotError
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ORDER, ROSTER, TABLE
from isocost.v1.roster_pb2 import Roster
from isocost.v1.table_pb2 import Table


def require_consistent(snapshot: Snapshot, changed: Collection[str]) -> None:
    """Check what the changed types touch; SnapshotError says what is missing."""
    for type_url in changed:
        if type_url not in ORDER:
            raise SnapshotError(f"{type_url} is not a type that is served")
    try:
        if CLUSTER in changed or ENDPOINTS in changed:
            _require_endpoints(snapshot)
        if ROSTER in changed or TABLE in changed:
            _require_roster(snapshot)
    except DecodeError as error:
        raise SnapshotError(f"a resource is not what its type says: {error}") from error


def _require_endpoints(snapshot: Snapshot) -> None:
    clusters, endpoints = snapshot.get(CLUSTER), snapshot.get(ENDPOINTS)
    # Endpoints are held until the first discovery; until then clusters stand alone.
    if clusters is None or endpoints is None:
        return
    for name, body in clusters.resources.items():
        wanted = _eds_name(body)
        if wanted is not None and wanted not in endpoints.resources:
            raise SnapshotError(f"cluster {name} has no endpoints {wanted}")


def _require_roster(snapshot: Snapshot) -> None:
    rosters, tables = snapshot.get(ROSTER), snapshot.get(TABLE)
    if tables is None:
        return
    for name, body in tables.resources.items():
        roster = None if rosters is None else rosters.resources.get(name)
        if roster is None:
            raise SnapshotError(f"table {name} has no published roster")
        wanted, published = _roster_of_table(body), _roster_version(roster)
        if wanted != published:
            raise SnapshotError(f"table {name} follows roster {wanted}, published is {published}")


# The caches hold as many entries as one snapshot asks for each tick without having changed.


@lru_cache(maxsize=16)
def _eds_name(body: bytes) -> str | None:
    cluster = Cluster.parse(Any.FromString(body).value)
    if cluster.type != ClusterDiscoveryType.EDS:
        return None
    config = cluster.eds_cluster_config
    return (config.service_name if config else "") or cluster.name


@lru_cache(maxsize=1)
def _roster_version(body: bytes) -> int:
    return int(Roster.FromString(Any.FromString(body).value).version)


def _roster_of_table(body: bytes) -> int:
    return int(Table.FromString(Any.FromString(body).value).roster_version)
