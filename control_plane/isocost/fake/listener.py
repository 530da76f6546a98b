"""The listening socket of a fake node, closed and opened again while the process runs."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from isocost.errors import StartError

#: A load test opens thousands of connections at once.
BACKLOG = 4096
#: Somebody else may have taken the port while it was closed: try again so often.
RETRY_S = 0.05

log = logging.getLogger(__name__)


def host_port(host: str, port: int) -> str:
    """As HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Listener:
    """``protocol`` is called for every connection."""

    def __init__(self, host: str, port: int, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._host = host
        self._protocol = protocol
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        #: The same after every opening, also when it was 0 at first.
        self.port = port

    async def start(self) -> None:
        """StartError: the port cannot be had."""
        try:
            await self._listen()
        except OSError as error:
            where = host_port(self._host, self.port)
            if error.errno == errno.EADDRINUSE:
                raise StartError(f"{where} is in use; choose another with --listen") from error
            raise StartError(f"cannot listen on {where} (--listen): {error}") from error

    def close(self) -> None:
        """Refuse every new connection; those that are there stay."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def open(self) -> None:
        """Listen again, as soon as the port is free."""
        if self._server is None and self._opening is None:
            self._opening = asyncio.create_task(self._reopen())

    async def _reopen(self) -> None:
        told = False
        while self._server is None:
            try:
                await self._listen()
            except OSError as error:
                if not told:
                    where = host_port(self._host, self.port)
                    log.warning("cannot listen on %s again: %s", where, error)
                    told = True
                await asyncio.sleep(RETRY_S)
        self._opening = None

    async def _listen(self) -> None:
        server = await asyncio.get_running_loop().create_server(
            self._protocol, self._host, self.port, backlog=BACKLOG, start_serving=False
        )
        self.port = server.sockets[0].getsockname()[1]
        # Before it serves: who cancels this in between must find it to close it.
        self._server = server
        await server.start_serving()
