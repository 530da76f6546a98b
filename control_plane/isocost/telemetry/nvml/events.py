"""Hears the Xids of a machine's GPUs, each one once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pynvml

from isocost.telemetry.nvml.messages import ABSENT, UNSUPPORTED, Raw

#: A GPU that reports Xids without end must not keep the reader.
MAX_XIDS = 256


class XidEvents:
    """Xids since listening began; each round takes all of them, not the last one."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int | None, str] = {}
        self._count = 0
        self.heard: Raw = ABSENT

    def listen(self, gpus: Sequence[tuple[str, Any]]) -> None:
        """Listen to (UUID, handle); those that cannot be listened to are left out."""
        self.close()
        try:
            self._set = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError:
            return
        for uuid, handle in gpus:
            try:
                pynvml.nvmlDeviceRegisterEvents(
                    handle, pynvml.nvmlEventTypeXidCriticalError, self._set
                )
            except pynvml.NVMLError:
                continue
            self._uuids[_address(handle)] = uuid
        if gpus and not self._uuids:
            self.heard = UNSUPPORTED

    @property
    def listening(self) -> bool:
        return bool(self._uuids)

    def close(self) -> None:
        events, self._set, self._uuids = self._set, None, {}
        if events is not None:
            pynvml.nvmlEventSetFree(events)

    def drain(self) -> tuple[list[tuple[str, int]], bool]:
        """What came since the last time as (UUID, Xid), and whether NVML is still listening:
        nothing but its time-out says that there was no more.
        """
        found: list[tuple[str, int]] = []
        alive = False
        while self.listening and len(found) < MAX_XIDS:
            try:
                event = pynvml.nvmlEventSetWait(self._set, 0)
            except pynvml.NVMLError as error:
                alive = error.value == pynvml.NVML_ERROR_TIMEOUT
                break
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                uuid = self._uuids.get(_address(event.device), "")
                found.append((uuid, event.eventData))
        else:
            alive = self.listening
        self._count += len(found)
        if alive:
            self.heard = float(self._count)
        return found, alive


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
