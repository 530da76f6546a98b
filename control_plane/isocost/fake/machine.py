"""A fake machine: a folder that stands for the driver, /proc and /sys of a GPU machine.

Fake nodes write it (machine_files); this says where what lies, and how an agent is told.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from isocost.errors import StartError
from isocost.fake.hardware import gpu_uuids
from isocost.files import FAKE_NVML

_LIBRARY_PATH = "LD_LIBRARY_PATH"


def nvml_folder(machine: Path) -> Path:
    """The state of its GPUs, a file for each node."""
    return machine / "nvml"


def procfs(machine: Path) -> Path:
    return machine / "proc"


def sysfs(machine: Path) -> Path:
    return machine / "sys"


def agent_environment(machine: Path) -> dict[str, str]:
    """What an agent of this machine needs in its environment, so that NVML is the fake one.

    StartError: the library is not there, or was built for another kind of machine.
    """
    try:
        ctypes.CDLL(str(FAKE_NVML))
    except OSError as error:
        raise StartError(f"no fake GPUs: {error}; `make fake-nvml` builds the library") from error
    before = os.environ.get(_LIBRARY_PATH)
    path = [str(FAKE_NVML.parent), *([before] if before else [])]
    return {
        _LIBRARY_PATH: os.pathsep.join(path),
        "ISOCOST_FAKE_NVML": str(nvml_folder(machine).absolute()),
    }


def agent_keys(machine: Path) -> Mapping[str, object]:
    """The keys of an agent's configuration that say where it is."""
    machine = machine.absolute()
    return {"procfs": str(procfs(machine)), "sysfs": str(sysfs(machine))}


def node_keys(node: str, url: str, seed: int = 0, gpu_count: int = 1) -> Mapping[str, object]:
    """The keys of a fake node's entry there that say where its telemetry comes from."""
    return {
        "metrics_url": f"{url}/metrics",
        "clock_url": f"{url}/fake/telemetry",
        "gpus": list(gpu_uuids(node, seed, gpu_count)),
        "network": [node],
    }
