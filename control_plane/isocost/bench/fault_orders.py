"""Orders faults from fake nodes and takes them back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aiohttp

from isocost.errors import NodeAwayError, StartError

_PATH = "/fake/faults"
_TIMEOUT = aiohttp.ClientTimeout(total=5.0)

#: What each node is told, by its URL.
Orders = Mapping[str, Sequence[Mapping[str, Any]]]


async def order(session: aiohttp.ClientSession, orders: Orders) -> None:
    """Send each node its orders; their times count from now.

    StartError where one does not take them, NodeAwayError where all that answer take them: then
    none is left anywhere.
    """
    problems = await asyncio.gather(
        *(_order(session, url, wanted) for url, wanted in orders.items())
    )
    found = [problem for problem in problems if problem is not None]
    if found:
        await clear(session, orders)
        raise next((one for one in found if not isinstance(one, NodeAwayError)), found[0])


async def rehearse(session: aiohttp.ClientSession, orders: Orders) -> None:
    """Let each node check orders that are still far off, and take them back.

    StartError as of :func:`order`, and where one cannot be reached to take them back.
    """
    problems: list[StartError] = []
    try:
        await order(session, orders)
    finally:
        # Also where it is cancelled.
        problems = await clear(session, orders)
    if problems:
        raise problems[0]


async def clear(session: aiohttp.ClientSession, urls: Iterable[str]) -> list[StartError]:
    """Take back everything from the nodes; the problems with those that did not answer."""
    problems = await asyncio.gather(*(_call(session, "DELETE", url, None) for url in urls))
    return [problem for problem in problems if problem is not None]


def longest_s(orders: Orders) -> float:
    """When the last of these faults ends by itself, in seconds from the order."""
    return max(
        (order["after_s"] + (order["for_s"] or 0.0) for of in orders.values() for order in of),
        default=0.0,
    )


async def _order(
    session: aiohttp.ClientSession, url: str, wanted: Sequence[Mapping[str, Any]]
) -> StartError | None:
    return await _call(session, "POST", url, list(wanted))


async def _call(
    session: aiohttp.ClientSession, method: str, url: str, body: object
) -> StartError | None:
    """What went wrong; None = nothing."""
    try:
        async with session.request(method, url + _PATH, json=body, timeout=_TIMEOUT) as response:
            if response.status < 300:
                return None
            text = (await response.text(errors="replace"))[:300]
    except TimeoutError:
        return NodeAwayError(f"node {url} does not answer within {_TIMEOUT.total:g} s")
    except (aiohttp.ClientError, ValueError) as error:
        return NodeAwayError(f"node {url} does not answer: {error}")
    answer = f"HTTP {response.status} {text}".rstrip()
    return StartError(f"node {url} does not take the order: {answer}")
