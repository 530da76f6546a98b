"""Refuses a snapshot whose parts do not fit, before any client can see it."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from isocost.push.eds_name import eds_name
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
    for name, body in clusters.resources.items() if clusters else ():
        wanted = eds_name(body)
        # Endpoints are held until the first discovery; until then clusters stand alone.
        if wanted is not None and endpoints is not None and wanted not in endpoints.resources:
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


# The roster of every tick until it changes.
@lru_cache(maxsize=1)
def _roster_version(body: bytes) -> int:
    return int(Roster.FromString(Any.FromString(body).value).version)


def _roster_of_table(body: bytes) -> int:
    return int(Table.FromString(Any.FromString(body).value).roster_version)
