"""The resource types that are served, in the order that makes before it breaks."""

from __future__ import annotations

_PREFIX = "type.googleapis.com/"

CLUSTER = _PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINTS = _PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
ROUTES = _PREFIX + "envoy.config.route.v3.RouteConfiguration"
EXTENSION = _PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
ROSTER = _PREFIX + "isocost.v1.Roster"
ESTIMATES = _PREFIX + "isocost.v1.Estimates"
TABLE = _PREFIX + "isocost.v1.Table"

#: Clusters before what points at them; a roster before the table whose arrays follow its order.
ORDER = (CLUSTER, ENDPOINTS, ROUTES, EXTENSION, ROSTER, ESTIMATES, TABLE)
