"""The weights that Envoy's own choice goes by: it adds those of a fleet up in 32 bits."""

from __future__ import annotations

import pytest
from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment
from google.protobuf.any_pb2 import Any

from isocost.errors import RejectedError
from isocost.push.resources.names import NODE_CLUSTER
from isocost.push.type_urls import ENDPOINTS
from isocost.weight.override import Override, parse_override
from tests.unit.control_plane.listed_fleet import Clock, streaming

LIMIT = 2**32
#: The largest fleet.
NODES = 10_240


def published(clock: Clock) -> list[int]:
    """The weights of all endpoints, as Envoy reads them."""
    resources = clock.cache.snapshot.get(ENDPOINTS)
    assert resources is not None
    body = resources.resources[NODE_CLUSTER]
    assignment = ClusterLoadAssignment.parse(Any.FromString(body).value)
    items = (item for area in assignment.endpoints for item in area.lb_endpoints)
    return [weight for item in items if (weight := item.load_balancing_weight) is not None]


@pytest.mark.parametrize("set_to", [None, 1.0])
def test_no_published_weight_is_beyond_what_the_largest_fleet_may_add_up(
    set_to: float | None,
) -> None:
    clock = streaming(1, 2, 3)
    if set_to is not None:
        for name in clock.nodes():
            by_hand = clock.pipeline.manual.overridden(name, Override(weight=set_to), None)
            clock.pipeline.manual = by_hand
    clock.run(11.0)
    found = published(clock)
    assert len(found) == 3 and min(found) > 0
    assert max(found) * NODES < LIMIT


@pytest.mark.parametrize("weight", [1.5, 2**31, 2**32 - 1, 1e300, "inf"])
def test_no_larger_weight_is_taken_by_hand(weight: object) -> None:
    with pytest.raises(RejectedError, match=r"weight: .* must be 0, or a number from .* to 1"):
        parse_override({"weight": weight})
