"""What a user gets from the wheel: the filter without Rust, the bootstrap, the trace."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from isocost.files import BOOTSTRAP, FAKE_NVML, WASM

ROOT = Path(__file__).parents[2]
#: 127 KiB.
MAX_WASM_BYTES = 130_048


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_filter_is_a_wasm_module_within_its_size() -> None:
    content = WASM.read_bytes()
    assert content[:4] == b"\0asm"
    assert len(content) <= MAX_WASM_BYTES


def test_the_wheel_holds_the_filter_as_built(wheel: zipfile.ZipFile) -> None:
    assert wheel.read("isocost/data/isocost.wasm") == WASM.read_bytes()


def test_the_wheel_holds_the_library_of_fake_gpus_and_is_one_for_all_machines(
    wheel: zipfile.ZipFile,
) -> None:
    assert wheel.read("isocost/data/nvml/libnvidia-ml.so.1") == FAKE_NVML.read_bytes()
    assert str(wheel.filename).endswith("-py3-none-any.whl")


def test_the_wheel_holds_the_bootstrap_and_the_trace_with_its_notice(
    wheel: zipfile.ZipFile,
) -> None:
    assert wheel.read("isocost/data/bootstrap.yaml") == BOOTSTRAP.read_bytes()
    names = set(wheel.namelist())
    assert {
        "isocost/data/azure_conv_10min.csv",
        "isocost/data/NOTICE-azure-conv.txt",
        "isocost/v1/table_pb2.py",
    } <= names


def test_the_wheel_holds_no_library_source(wheel: zipfile.ZipFile) -> None:
    assert not [name for name in wheel.namelist() if name.endswith((".c", ".h"))]


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert b"isocost = isocost.cli.main:main" in wheel.read(entry_points)


def test_the_wheel_names_its_licences_and_brings_their_texts(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    fields = wheel.read(metadata).decode().splitlines()
    assert "License-Expression: Apache-2.0 AND CC-BY-4.0" in fields
    files = {line.removeprefix("License-File: ") for line in fields if line.startswith("License-F")}
    notices = {str(path.relative_to(ROOT)) for path in WASM.parent.glob("NOTICE-*.txt")}
    assert files == {"LICENSE", *notices} and len(notices) == 3
    folder = Path(metadata).parent / "licenses"
    assert {str(folder / name) for name in files} <= set(wheel.namelist())
