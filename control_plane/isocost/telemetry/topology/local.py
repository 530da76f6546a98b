"""This machine's topology: NVML tells it, or nvidia-smi where NVML cannot be opened."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from isocost.errors import StartError
from isocost.telemetry.nvml.messages import HEADER
from isocost.telemetry.topology.assemble import assemble
from isocost.telemetry.topology.facts import NvmlAnswer
from isocost.telemetry.topology.machine import Topology
from isocost.telemetry.topology.matrix import read_matrix
from isocost.telemetry.topology.sysfs import Sysfs

#: It takes 1 to 3 s where the driver is not loaded yet; a GPU that hangs never answers.
TIMEOUT_S = 30.0

#: Without -P it would import what lies in the folder in which the command is run.
_NVML = (sys.executable, "-P", "-m", "isocost.telemetry.nvml.topology")
_NVIDIA_SMI = ("nvidia-smi", "topo", "-m")


@dataclass(frozen=True, slots=True)
class Told:
    """A topology, who told it, and why it was not NVML, or ""."""

    topology: Topology
    source: str
    reason: str = ""


def local_topology(sysfs: Sysfs, timeout_s: float) -> Told:
    """StartError: who was asked gave no answer in that time, none at all, or there is nobody to
    ask; TopologyError: nvidia-smi printed something else.
    """
    answer = _ask_nvml(timeout_s)
    if answer.failed:
        raise StartError(f"NVML: {answer.failed}")
    if not answer.unavailable:
        return Told(assemble(answer.gpus, sysfs), "NVML")
    reason = f"NVML: {answer.unavailable}"
    try:
        return Told(read_matrix(_ask_nvidia_smi(timeout_s)), "nvidia-smi", reason)
    except StartError as error:
        raise StartError(f"{reason}; {error}") from error


def _ask_nvml(timeout_s: float) -> NvmlAnswer:
    try:
        done = _run(_NVML, timeout_s)
    except OSError as error:
        raise StartError(f"cannot ask NVML: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise StartError(f"NVML gave no answer in {timeout_s:g} s") from error
    if done.returncode != 0:
        # Of a traceback the last line tells it.
        said = _lines(done.stderr)[-1]
        raise StartError(f"the process that asks NVML failed with {done.returncode}: {said}")
    answer: NvmlAnswer = pickle.loads(done.stdout[HEADER.size :])
    return answer


def _ask_nvidia_smi(timeout_s: float) -> str:
    try:
        done = _run(_NVIDIA_SMI, timeout_s)
    except OSError as error:
        raise StartError(
            f"cannot run nvidia-smi ({error.strerror}); give its output: "
            "nvidia-smi topo -m > topo.txt, then isocost topology --file topo.txt"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise StartError(f"nvidia-smi gave no answer in {timeout_s:g} s") from error
    if done.returncode != 0:
        said = _lines(done.stdout + done.stderr)[0]
        raise StartError(f"nvidia-smi failed with {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")


def _run(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        # Nothing ends a process that the driver holds: it is left behind.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _lines(output: bytes) -> list[str]:
    """Those that are not empty; never none, so that the first or last can be quoted."""
    lines = output.decode(errors="replace").splitlines()
    return [line.strip()[:200] for line in lines if line.strip()] or ["nothing"]
