"""Faults are ordered from all nodes or from none, and taken back."""

import aiohttp
import pytest

from isocost.bench import fault_orders
from isocost.errors import StartError
from tests.unit.bench.fault_node import fault_node

SLOW = {"fault": "slow", "factor": 3, "after_s": 1.0, "for_s": 2.0}


async def test_each_node_gets_its_orders_in_one_call() -> None:
    async with fault_node() as one, fault_node() as two, aiohttp.ClientSession() as session:
        await fault_orders.order(session, {one.url: [SLOW, SLOW], two.url: [SLOW]})
        assert one.calls == [("POST", [SLOW, SLOW])]
        assert two.calls == [("POST", [SLOW])]
        assert await fault_orders.clear(session, [one.url, two.url]) == []
        assert one.calls[1:] == two.calls[1:] == [("DELETE", None)]


async def test_a_node_that_refuses_leaves_no_fault_on_the_others() -> None:
    async with fault_node() as good, fault_node() as bad, aiohttp.ClientSession() as session:
        bad.status = 400
        with pytest.raises(StartError, match=rf"{bad.url} .*HTTP 400.*no such fault"):
            await fault_orders.order(session, {good.url: [SLOW], bad.url: [SLOW]})
        assert good.calls == [("POST", [SLOW]), ("DELETE", None)]


async def test_a_node_that_is_not_there_is_named_before_any_load() -> None:
    async with fault_node() as node:
        url = node.url
    async with aiohttp.ClientSession() as session:
        with pytest.raises(StartError, match=f"{url} does not answer"):
            await fault_orders.rehearse(session, {url: [SLOW]})
        (problem,) = await fault_orders.clear(session, [url])
        assert url in str(problem)


def test_the_last_fault_ends_the_longest_start_and_length_after_the_order() -> None:
    endless = {"fault": "hang", "after_s": 2.0, "for_s": None}
    assert fault_orders.longest_s({"a": [SLOW, endless], "b": [{**SLOW, "after_s": 4.0}]}) == 6.0
    assert fault_orders.longest_s({}) == 0.0


async def test_a_rehearsal_takes_everything_back() -> None:
    async with fault_node() as node, aiohttp.ClientSession() as session:
        await fault_orders.rehearse(session, {node.url: [SLOW]})
        assert [method for method, _ in node.calls] == ["POST", "DELETE"]
