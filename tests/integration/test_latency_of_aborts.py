"""An answer that its client left tells no time per token: how many tokens it had is not known."""

from __future__ import annotations

from tests.integration.harness.fleet import MODEL, Fleet
from tests.integration.harness.wait import wait_until

STREAMS = 12
TOKENS = 200


async def test_streams_that_clients_leave_do_not_make_their_node_slow(fleet: Fleet) -> None:
    await fleet.start(1)
    [node] = fleet.nodes
    for _ in range(STREAMS):
        await stream(fleet, pieces=None)
    usual_ms = await wait_until(lambda: latency_ms(fleet), "a time per token")
    # The fake node's streams come in a few pieces, each of many tokens.
    for _ in range(STREAMS):
        await stream(fleet, pieces=3)
    await wait_until(lambda: aborts(fleet, STREAMS), "the aborts are counted")
    for _ in range(2):
        await fleet.next_table()
    after_ms = await latency_ms(fleet)
    print(node.name, "ms per token:", usual_ms, after_ms)
    assert after_ms is not None
    assert after_ms < 1.5 * usual_ms


async def stream(fleet: Fleet, pieces: int | None) -> None:
    """Read so many pieces of an answer, or all of it, and leave."""
    body = {
        "model": MODEL,
        "prompt": "hello",
        "max_tokens": TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with fleet.session.post(f"{fleet.envoy.url}/v1/completions", json=body) as response:
        assert response.status == 200
        read = 0
        async for line in response.content:
            read += line.startswith(b"data:")
            if read == pieces:
                response.close()
                return


async def latency_ms(fleet: Fleet) -> float | None:
    [row] = await fleet.node_rows()
    value = row["latency_ms"]
    return None if value is None else float(value)


async def aborts(fleet: Fleet, count: int) -> bool:
    [row] = await fleet.node_rows()
    return bool(row["outcomes"]["client_aborts"] == count)
