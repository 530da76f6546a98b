"""The names by which Envoy, the filter and the control plane know each other's parts."""

from __future__ import annotations

#: The ordered destinations, "ip:port,ip:port,ip:port": set by the filter, seen by nobody else.
DESTINATION_HEADER = "x-isocost-destination"
#: The node that holds a session's beginning, "ip:port", where the pick is another: for engines that
#: fetch KV caches from each other.
PREVIOUS_NODE_HEADER = "x-isocost-previous-node"

#: Static cluster of the bootstrap: the ADS server, which the filter calls as well.
CONTROL_PLANE_CLUSTER = "isocost_control_plane"
#: The cluster of all nodes and its EDS service name.
NODE_CLUSTER = "isocost_nodes"
ROUTES = "isocost_routes"
VIRTUAL_HOST = "llm"

#: The HTTP filter, its ECDS resource, its plugin, root context and VM.
FILTER = "isocost"
#: Key of the endpoint metadata that holds a node's name and rack, for the access log.
METADATA = "isocost"
