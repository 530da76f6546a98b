"""The GPUs of one node, as NVML knows them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence

from isocost.model import GpuSample
from isocost.telemetry.nvml.process import Nvml
from isocost.telemetry.nvml.sample import aged

log = logging.getLogger(__name__)


class NodeGpus:
    """``uuids`` are the node's; times are monotonic."""

    def __init__(self, node: str, uuids: Sequence[str], nvml: Nvml) -> None:
        self._node = node
        self._uuids = uuids
        self._nvml = nvml
        self._missing: set[str] = set()
        #: By UUID, how each was when NVML listed it last, and when that was.
        self._listed: dict[str, tuple[GpuSample, float]] = {}

    def sample(self, now_s: float) -> tuple[GpuSample, ...]:
        """All of them, known or not."""
        if self._nvml.load.answers:
            self._tell({uuid for uuid in self._uuids if self._nvml.load.find(uuid) is None})
        return tuple(self._gpu(uuid, now_s) for uuid in self._uuids)

    def pids(self) -> set[int]:
        """The processes that compute on them."""
        conditions = [self._nvml.condition.find(uuid) for uuid in self._uuids]
        return {
            process.pid
            for condition in conditions
            if condition is not None
            for process in condition.processes
        }

    def _gpu(self, uuid: str, now_s: float) -> GpuSample:
        """One that NVML does not list is lost, also if it never was listed: an agent that starts
        anew must not put a node back whose GPU is gone.
        """
        # Asked for it, NVML's readers look for one that is not listed.
        sample = self._nvml.sample(uuid)
        if self._nvml.load.find(uuid) is not None:
            self._listed[uuid] = sample, now_s
            return sample
        if uuid not in self._listed:
            return dataclasses.replace(sample, lost=self._nvml.load.answers)
        sample, listed_s = self._listed[uuid]
        gone_s = now_s - listed_s
        old: GpuSample = aged(sample, gone_s, fresh=False)
        return dataclasses.replace(
            old,
            lost=True,
            health=None if sample.health is None else aged(sample.health, 0.0, fresh=False),
            health_age_s=sample.health_age_s + gone_s,
        )

    def _tell(self, missing: set[str]) -> None:
        """Log which are not listed, and which are again."""
        if missing - self._missing:
            log.warning("%s: NVML does not list %s", self._node, _list(missing))
        if self._missing - missing:
            log.info("%s: NVML lists %s", self._node, _list(self._missing - missing))
        self._missing = missing


def _list(uuids: Iterable[str]) -> str:
    return ", ".join(sorted(uuids))
