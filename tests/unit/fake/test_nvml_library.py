"""The fake NVML's state: a folder is one machine, changes are seen, too much is an error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isocost.fake.gpu_state import gpu_states, state_text
from isocost.fake.hardware import Hardware, gpu_uuids
from isocost.fake.models import model_named
from isocost.files import FAKE_NVML
from tests.unit.telemetry.fake_gpus import ROOT, ReaderProcess, build_library

DEADLINE_S = 5.0


@pytest.fixture(scope="module", autouse=True)
def _library() -> None:
    build_library()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "nvml"
    path.mkdir()
    write(path / "two", "gpus=c\nc.temperature=70")
    write(path / "one", "gpus=b,a\na.temperature=50\nb.temperature=60\n")
    write(path / ".three", "gpus=d\n")
    write(path / "empty", "")
    return path


@pytest.fixture
def nvml(folder: Path) -> Iterator[ReaderProcess]:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(FAKE_NVML.parent),
        "ISOCOST_FAKE_NVML": str(folder),
        "PYTHONPATH": str(ROOT / "control_plane"),
    }
    with ReaderProcess(environment) as process:
        yield process


def write(path: Path, text: str) -> None:
    new = path.with_name(f".new-{path.name}")
    new.write_text(text)
    new.replace(path)


def temperatures(nvml: ReaderProcess) -> dict[str, float]:
    return {
        gpu.identity.uuid: gpu.temperature_celsius.value
        for gpu in nvml.condition(scan=True).gpus
        if not gpu.lost
    }


def until(condition: Callable[[], bool]) -> None:
    """A folder is looked at every millisecond."""
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s


def test_the_files_of_a_folder_are_one_machine_in_the_order_of_their_names(
    nvml: ReaderProcess,
) -> None:
    assert list(temperatures(nvml).items()) == [("GPU-b", 60), ("GPU-a", 50), ("GPU-c", 70)]


def test_a_change_of_any_file_and_its_end_are_seen(nvml: ReaderProcess, folder: Path) -> None:
    temperatures(nvml)
    write(folder / "two", "gpus=c\nc.temperature=71")
    until(lambda: temperatures(nvml)["GPU-c"] == 71)
    with (folder / "two").open("a") as file:
        file.write("\nc.temperature=72\n")
    until(lambda: temperatures(nvml)["GPU-c"] == 72)
    (folder / "one").unlink()
    until(lambda: temperatures(nvml) == {"GPU-c": 72})
    write(folder / "zero", "gpus=e\n")
    until(lambda: temperatures(nvml) == {"GPU-c": 72, "GPU-e": 40})


@pytest.mark.parametrize(
    "text",
    [
        "gpus=e\n" + "a note\n" * 200_000,
        "gpus=e\n" + "e=1\n" * 20_000,
        "gpus=e\ne.name=" + "x" * 20_000 + "\n",
        "gpus=" + ",".join(f"gpu-{number:036}" for number in range(400)) + "\n",
    ],
)
def test_more_than_there_is_room_for_is_an_error_and_no_half_a_machine(
    nvml: ReaderProcess, folder: Path, text: str
) -> None:
    assert nvml.load(scan=True).error == ""
    write(folder / "too-large", text)
    until(lambda: nvml.load(scan=True).error == "NVML: Insufficient Memory")
    (folder / "too-large").unlink()
    until(lambda: nvml.load(scan=True).error == "")
    assert len(temperatures(nvml)) == 3


def test_a_machine_has_room_for_256_gpus(nvml: ReaderProcess, folder: Path) -> None:
    hardware = Hardware("H100", 8, model_named("llama-3.1-8b"))
    for file in ("one", "two"):
        (folder / file).unlink()
    for number in range(32):
        states = gpu_states(f"node-{number}", hardware, None, 0)
        down = {f"nvlink.{link}.active": 0 for link in range(18)}
        text = state_text(gpu_uuids(f"node-{number}", 0, 8), [state | down for state in states])
        write(folder / f"node-{number}", text)
    gpus = nvml.load(scan=True).gpus
    assert len({gpu.identity.uuid for gpu in gpus}) == 256
    assert {gpu.memory_total_bytes.value for gpu in gpus} == {hardware.card.vram_total_bytes}
