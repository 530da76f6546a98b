"""A policy whose numbers cannot be had picks as if they did not matter: that shows."""

from __future__ import annotations

from tests.integration.harness.fleet import Fleet, order
from tests.integration.harness.wait import wait_until

SIGNAL = "net_bytes_per_s"


async def test_a_signal_that_no_node_tells_shows_in_the_status_and_as_a_gauge(
    fleet: Fleet,
) -> None:
    await fleet.start(2, "min_entropy")
    await wait_until(lambda: missing(fleet, []), "every signal")
    assert await gauge(fleet) == 0.0
    for node in fleet.nodes:
        await order(fleet.session, node, **{SIGNAL: "absent"})
    await wait_until(lambda: missing(fleet, [SIGNAL]), "the missing signal")
    assert await gauge(fleet) == 1.0
    # Requests are served all the same.
    await fleet.complete(20)
    await order(fleet.session, fleet.nodes[0], **{SIGNAL: None})
    await wait_until(lambda: missing(fleet, []), "one node that tells is enough")
    assert await gauge(fleet) == 0.0


async def missing(fleet: Fleet, signals: list[str]) -> bool:
    found = (await fleet.status())["signals"]
    return bool(found["missing"] == signals)


async def gauge(fleet: Fleet) -> float:
    async with fleet.session.get(f"{fleet.http}/metrics") as response:
        page = await response.text()
    name = f'isocost_policy_input_missing{{signal="{SIGNAL}"}} '
    [line] = [line for line in page.splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))
