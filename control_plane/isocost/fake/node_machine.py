"""A fake node's part of its fake machine: GPUs, network card and process, in step with the node."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from isocost.fake.gpu_orders import GpuOrders
from isocost.fake.gpu_state import State, gpu_states, state_text, unreadable
from isocost.fake.machine_files import NO_COUNTERS, MachineFiles
from isocost.fake.settings import FakeNodeSettings
from isocost.fake.telemetry import FakeTelemetry
from isocost.fake.traffic import Traffic

#: InfiniBand counts data in words.
_WORD_BYTES = 4

log = logging.getLogger(__name__)


class NodeMachine:
    """OSError: its files cannot be written."""

    def __init__(self, settings: FakeNodeSettings, machine: Path, traffic: Traffic) -> None:
        self._name = settings.name
        self._hardware = settings.hardware
        self._uuids = settings.gpu_uuids
        self._files = MachineFiles(machine, settings.name)
        self._traffic = traffic
        #: The engine whose process there is, by its telemetry.
        self._engine: FakeTelemetry | None = None
        self._pid = 0
        self._states: list[State] = []
        #: What the port has counted, in bytes, and what of the traffic that contains.
        self._sent_bytes = self._received_bytes = 0.0
        self._seen_bytes = (0, 0)
        self._seen_s: float | None = None
        self.orders = GpuOrders(self._uuids, settings.hardware.card.nvlink_links)

    def update(self, now_s: float, telemetry: FakeTelemetry | None, readable: bool = True) -> None:
        """Make the files tell what holds now. ``telemetry`` None: no engine runs. ``readable``:
        whether numbers can be read at all.
        """
        if telemetry is not self._engine:
            self._files.end_process()
            if telemetry is not None:
                self._pid = self._files.start_process()
            self._engine = telemetry
        signals = None if telemetry is None else telemetry.gpu()
        self._states = gpu_states(self._name, self._hardware, signals, self._pid)
        if not readable:
            self._states = [unreadable(state) for state in self._states]
        for index, state in enumerate(self._states):
            state.update(self.orders.of(index))
        self._files.gpus(state_text(self._uuids, self._states))
        ordered = None if telemetry is None else telemetry.ordered("net_bytes_per_s")
        self._count(now_s, ordered)
        if not readable or ordered == "absent":
            self._files.network(None, None)
        elif ordered == "unsupported":
            self._files.network(NO_COUNTERS, NO_COUNTERS)
        else:
            self._files.network(_words(self._sent_bytes), _words(self._received_bytes))

    def page(self) -> bytes:
        """Each card as the library tells it, with what of that is by order."""
        gpus = [
            {"uuid": uuid, "state": state, "orders": self.orders.of(index)}
            for index, (uuid, state) in enumerate(zip(self._uuids, self._states, strict=True))
        ]
        return json.dumps({"gpus": gpus}).encode()

    def remove(self) -> None:
        """The node is gone."""
        self._files.remove()

    def _count(self, now_s: float, ordered: float | str | None) -> None:
        """Go on by the traffic since the last time, or at the ordered rate."""
        seen, elapsed_s = self._seen_bytes, now_s - (self._seen_s or now_s)
        self._seen_bytes = (self._traffic.sent_bytes, self._traffic.received_bytes)
        self._seen_s = now_s
        if isinstance(ordered, float):
            self._sent_bytes += ordered * elapsed_s / 2
            self._received_bytes += ordered * elapsed_s / 2
        else:
            self._sent_bytes += self._seen_bytes[0] - seen[0]
            self._received_bytes += self._seen_bytes[1] - seen[1]


def _words(counted_bytes: float) -> str:
    return str(int(counted_bytes) // _WORD_BYTES)


def install(settings: FakeNodeSettings) -> None:
    """Put the node's cards into its machine before it starts."""
    assert settings.machine is not None
    states = gpu_states(settings.name, settings.hardware, None, 0)
    files = MachineFiles(settings.machine, settings.name)
    files.gpus(state_text(settings.gpu_uuids, states))
