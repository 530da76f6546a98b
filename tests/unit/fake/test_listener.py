"""The socket of a node that is closed while it is being opened again."""

from __future__ import annotations

import asyncio

import pytest

from isocost.fake.listener import Listener


@pytest.mark.parametrize("steps", range(6))
async def test_closing_leaves_no_socket_however_far_the_opening_was(steps: int) -> None:
    listener = Listener("127.0.0.1", 0, asyncio.Protocol)
    await listener.start()
    listener.close()
    listener.open()
    for _ in range(steps):
        await asyncio.sleep(0)
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listener.port)
