"""A port in use is found before anything starts."""

import socket
from collections.abc import Iterator

import pytest

from isocost.demo.ports import WantedPort, check_ports
from isocost.errors import StartError


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        # As Envoy listens: others may share such a port, and must not.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_taken_port_is_named_with_its_flag(taken_port: int) -> None:
    with pytest.raises(
        StartError, match=rf"port {taken_port} of the gateway is in use: .* with --port"
    ):
        check_ports([WantedPort(taken_port, "gateway", "--port")])


def test_free_ports_are_accepted_and_stay_free() -> None:
    want = [WantedPort(free_port(), "gateway", "--port")]
    check_ports(want)
    check_ports(want)


def test_one_port_for_two_purposes_is_refused() -> None:
    port = free_port()
    with pytest.raises(StartError, match=r"gateway \(--port\) and the node \(--node-port-base\)"):
        check_ports(
            [WantedPort(port, "gateway", "--port"), WantedPort(port, "node", "--node-port-base")]
        )


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(StartError, match="is not between 1 and 65535"):
        check_ports([WantedPort(port, "gateway", "--port")])
