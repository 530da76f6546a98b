"""Every recording of what machines and engines say is in a test: it is named there by its path.

That the test asserts what the file says is for who reads the test to see.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data"
TESTS = Path(__file__).parents[1]
FOLDERS = ("metrics-*", "gpu-topology", "nvidia-smi-*", "nccl-topology-xml", "gpu-faults")
FILES = sorted(
    file.relative_to(DATA).as_posix()
    for pattern in FOLDERS
    for folder in DATA.glob(pattern)
    for file in folder.rglob("*")
    if file.is_file() and file.name != "SOURCE.md"
)


def names_in(module: Path) -> set[str]:
    """Every text that stands alone in a test module."""
    nodes = ast.walk(ast.parse(module.read_text()))
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.fixture(scope="module")
def named() -> set[str]:
    modules = (module for module in TESTS.rglob("test_*.py") if module != Path(__file__))
    return set[str]().union(*map(names_in, modules))


def test_there_are_recordings() -> None:
    assert len(FILES) > 40


@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_in_a_test(file: str, named: set[str]) -> None:
    within = file.partition("/")[2]
    # A name is enough where the module knows the folder; in folders of folders it is not unique.
    assert file in named or ("/" not in within and within in named)


@pytest.mark.parametrize("folder", sorted({file.partition("/")[0] for file in FILES}))
def test_a_recording_has_its_source(folder: str) -> None:
    assert (DATA / folder / "SOURCE.md").is_file()
