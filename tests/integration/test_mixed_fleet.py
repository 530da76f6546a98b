"""A fleet of unlike cards and two models, one node with both: each gets what it can do."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.integration.conftest import StartEnvoy, StartIsocost
from tests.integration.harness.mixed_fleet import LARGE, SMALL, MixedFleet

#: Of a node's share of what all nodes of the model can do.
MOST_OFF = 0.05
LEARN_S, MEASURE_S = 8.0, 14.0


@pytest.fixture
def mixed_fleet(
    start_isocost: StartIsocost,
    start_envoy: StartEnvoy,
    client: aiohttp.ClientSession,
    tmp_path: Path,
) -> MixedFleet:
    return MixedFleet(start_isocost, start_envoy, client, tmp_path)


async def test_under_saturation_every_node_gets_of_each_model_what_it_can_do(
    mixed_fleet: MixedFleet,
) -> None:
    """Also while both models wait: the queue of one on the node with both is no queue of the
    other's. That comes last, when the node was seen to be slow with the large one.
    """
    await mixed_fleet.start_mixed("equal_cost")
    for models in ((SMALL,), (LARGE,), (SMALL, LARGE)):
        shares = await mixed_fleet.shares(models, LEARN_S, MEASURE_S)
        print("\n".join(map(str, shares)))
        off = [str(share) for share in shares if abs(share.error) > MOST_OFF]
        assert not off, f"with {' and '.join(models)} waiting: {off}"
