"""Ports are checked before anything starts: a taken one is named with the flag that changes it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from isocost.errors import StartError


@dataclass(frozen=True, slots=True)
class WantedPort:
    """A port that something of the demo will listen on."""

    port: int
    purpose: str
    flag: str


def check_ports(wanted: Sequence[WantedPort]) -> None:
    """StartError for the first port that is out of range, wanted twice or in use."""
    by_port: dict[int, WantedPort] = {}
    for want in wanted:
        if not 0 < want.port < 65536:
            raise StartError(
                f"port {want.port} of the {want.purpose} is not between 1 and 65535: "
                f"choose another with {want.flag}"
            )
        if other := by_port.get(want.port):
            raise StartError(
                f"port {want.port} is wanted by the {other.purpose} ({other.flag}) and "
                f"the {want.purpose} ({want.flag}): choose another for one of them"
            )
        by_port[want.port] = want
        _check_free(want)


def _check_free(want: WantedPort) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of the last run in TIME_WAIT are no obstacle; a listener still is. Without
        # SO_REUSEPORT, so that another Envoy's shared listener is an obstacle as well.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", want.port))
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"is not usable ({error})"
            raise StartError(
                f"port {want.port} of the {want.purpose} {reason}: choose another with {want.flag}"
            ) from error
