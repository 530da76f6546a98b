"""The operator's restart command, run when a node's engine has lost its CUDA handles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from isocost.telemetry.cuda_handles import HandleDrop
from isocost.telemetry.operator_command import CommandEnd, run_command

#: It starts a restart, it need not wait for the engine, which loads its model for minutes.
LIMIT_S = 60.0

log = logging.getLogger(__name__)


class RestartHook:
    """One node's: ``note`` is told every reading, ``run`` runs the command. Once per drop, and one
    after the other: a drop during a run waits for its end, and is forgotten if it clears before.
    """

    def __init__(self, node: str, command: Sequence[str]) -> None:
        self._node = node
        self._command = tuple(command)
        self._told = False
        self._wanted: dict[str, str] | None = None
        self._noted = asyncio.Event()

    def note(self, instance: str, drops: Sequence[HandleDrop]) -> None:
        """What was read of the node's handles; no drops: nothing is wrong, or not any more."""
        if not drops:
            self._told = False
            self._wanted = None
        elif not self._told:
            self._told = True
            self._wanted = {
                "ISOCOST_NODE": self._node,
                "ISOCOST_INSTANCE": instance,
                "ISOCOST_PIDS": " ".join(str(drop.pid) for drop in drops),
                "ISOCOST_REASON": "; ".join(str(drop) for drop in drops),
            }
            self._noted.set()

    async def run(self) -> None:
        """Until cancelled, which also ends a command that runs."""
        while True:
            await self._noted.wait()
            self._noted.clear()
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                await self._restart(wanted)

    async def _restart(self, environment: dict[str, str]) -> None:
        reason = environment["ISOCOST_REASON"]
        log.warning("%s: %s: the restart command runs", self._node, reason)
        try:
            end = await run_command(self._command, environment, LIMIT_S)
        except (OSError, ValueError) as error:
            log.warning("%s: the restart command did not start: %s", self._node, error)
            return
        for line in end.lines:
            log.info("%s: restart command: %s", self._node, line)
        if end.exit_code == 0 and end.in_time:
            log.info("%s: the restart command is done", self._node)
        else:
            log.warning("%s: the restart command failed: %s", self._node, _why(end))


def _why(end: CommandEnd) -> str:
    if not end.in_time:
        return f"it took longer than {LIMIT_S:g} s and was ended"
    return f"exit code {end.exit_code}" if end.exit_code > 0 else f"signal {-end.exit_code}"
