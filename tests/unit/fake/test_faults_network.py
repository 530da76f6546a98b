"""Late and lost pieces: how late, and always in order."""

from __future__ import annotations

import asyncio
import random

import pytest

from isocost.fake.faults import Delay, Loss
from isocost.fake.network import (
    MAX_RETRANSMISSION_S,
    RETRANSMISSION_S,
    Lane,
    Network,
    Wire,
    late_s,
)
from tests.unit.fake.node_client import DEADLINE_S

PIECES = 20_000


def test_nothing_is_late_in_a_good_network() -> None:
    assert late_s(None, None, random.Random(1)) == 0.0


def test_a_delay_is_within_its_jitter_and_even_on_average() -> None:
    choose = random.Random(1)
    times_s = [late_s(Delay(50.0, 20.0), None, choose) for _ in range(PIECES)]
    assert min(times_s) >= 0.03 and max(times_s) <= 0.07
    assert sum(times_s) / PIECES == pytest.approx(0.05, rel=0.01)


def test_a_lost_piece_comes_after_retransmissions_that_double() -> None:
    choose = random.Random(1)
    times_s = [late_s(None, Loss(0.2), choose) for _ in range(PIECES)]
    for losses in range(4):
        waited_s = RETRANSMISSION_S * (2**losses - 1)
        share = sum(time_s == pytest.approx(waited_s) for time_s in times_s) / PIECES
        assert share == pytest.approx(0.8 * 0.2**losses, abs=0.01)


def test_no_single_wait_for_a_lost_piece_is_longer_than_linux_waits() -> None:
    class AllLost(random.Random):
        left = 14

        def random(self) -> float:
            self.left -= 1
            return 0.0 if self.left else 1.0

    doubling_s = sum(RETRANSMISSION_S * 2**step for step in range(10))
    assert late_s(None, Loss(0.9), AllLost()) == doubling_s + 3 * MAX_RETRANSMISSION_S


def test_the_network_is_as_late_again_with_the_same_seed() -> None:
    def times_s(seed: str) -> list[float]:
        network = Network(seed)
        network.delay, network.loss = Delay(50.0, 20.0), Loss(0.2)
        return [network.late_s() for _ in range(20)]

    assert times_s("a") == times_s("a") != times_s("b")


async def test_late_pieces_keep_their_order_and_the_fault_may_end_meanwhile() -> None:
    network = Network("order")
    network.delay = Delay(20.0, 20.0)
    lane = Lane(network)
    arrived: list[int] = []
    for number in range(100):
        lane.send(arrived.append, number)
    network.delay = None
    lane.send(arrived.append, 100)
    assert arrived == []
    all_there = asyncio.Event()
    lane.send(all_there.set)
    await asyncio.wait_for(all_there.wait(), DEADLINE_S)
    assert arrived == list(range(101))
    lane.send(arrived.append, 101)
    assert arrived[-1] == 101


class AcceptedSocket(asyncio.Transport):
    """A connection that remembers what was sent to the client, and how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.aborted = False
        self.closed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed.set()

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed.is_set()


class Handler(asyncio.Protocol):
    """A server that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.connection: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.connection = transport

    def data_received(self, data: bytes) -> None:
        self.told.append(data)

    def eof_received(self) -> None:
        self.told.append(b"end")


@pytest.mark.parametrize("refusing", [True, False])
async def test_a_connection_accepted_just_before_a_refusal_is_cut(refusing: bool) -> None:
    network = Network("accepted")
    network.refusing = refusing
    accepted = AcceptedSocket()
    Wire(asyncio.Protocol(), network).connection_made(accepted)
    assert accepted.aborted is refusing


async def test_a_refusal_closes_a_connection_behind_the_late_answer_to_its_last_request() -> None:
    network, accepted, handler = Network("refusal"), AcceptedSocket(), Handler()
    Wire(handler, network).connection_made(accepted)
    network.delay = Delay(20.0, 0.0)
    handler.connection.write(b"answer")
    network.close_idle()
    await asyncio.wait_for(accepted.closed.wait(), DEADLINE_S)
    assert accepted.sent == b"answer" and not accepted.aborted


async def test_the_end_of_the_input_comes_behind_late_pieces() -> None:
    network, accepted, handler = Network("end"), AcceptedSocket(), Handler()
    network.delay = Delay(20.0, 0.0)
    wire = Wire(handler, network)
    wire.connection_made(accepted)
    wire.data_received(b"request")
    assert wire.eof_received(), "or the connection is closed at once"
    await asyncio.wait_for(accepted.closed.wait(), DEADLINE_S)
    assert handler.told == [b"request", b"end"]
