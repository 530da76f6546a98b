"""The node list file: read again when it changes, and never worse than the last good one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from isocost.discovery.file import FileNodes, in_thread
from isocost.errors import ConfigError

NODE = """
- {name: %s, address: "%s", rack: r1, host: h1, models: [{name: m}]}
"""


def written(path: Path, *nodes: tuple[str, str]) -> Path:
    text = "nodes:" + "".join(NODE % node for node in nodes) if nodes else "nodes: []"
    return replaced(path, text)


def replaced(path: Path, text: str) -> Path:
    """Written beside and moved there, as editors and deployment tools do."""
    path.mkdir(exist_ok=True)
    (path / "new").write_text(text, encoding="utf-8")
    return (path / "new").replace(path / "nodes.yaml")


def at_once(work: Callable[[], None]) -> None:
    work()


def names(of: FileNodes) -> list[str]:
    return [node.name for node in of.nodes]


def test_nodes_have_no_epoch(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ("n1", "192.0.2.1:80")), at_once)
    (node,) = file.nodes
    assert node.instance_id == "n1@0" and node.address == "192.0.2.1:80"
    assert node.models[0].name == "m"


def test_a_change_is_seen_also_with_an_equal_time_and_size(tmp_path: Path) -> None:
    path = written(tmp_path, ("n1", "192.0.2.1:80"))
    os.utime(path, ns=(1, 1))
    file = FileNodes(path, at_once)
    written(tmp_path, ("n2", "192.0.2.1:80"))
    os.utime(path, ns=(1, 1))
    file.refresh()
    assert names(file) == ["n2"]


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    readings: list[Callable[[], None]] = []
    file = FileNodes(written(tmp_path, ("n1", "192.0.2.1:80")), readings.append)
    file.refresh()
    assert readings == []
    written(tmp_path, ("n2", "192.0.2.2:80"))
    file.refresh()
    written(tmp_path, ("n3", "192.0.2.3:80"))
    file.refresh()
    assert len(readings) == 1, "a second reading began before the first had ended"
    readings.pop()()
    file.refresh()
    readings.pop()()
    assert names(file) == ["n3"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nodes: None is not allowed; it is required"),
        ("nodes: [", "not YAML"),
        ("nodes: [{name: n1}]", "nodes.0.address"),
        ("nodse: []", "unknown key; known here: nodes"),
        ("nodes:" + NODE % ("a", "192.0.2.1:80") + NODE % ("a", "192.0.2.2:80"), "nodes.*.name"),
        ("nodes:" + NODE % ("a", "192.0.2.1:80") + NODE % ("b", "192.0.2.1:80"), "nodes.*.addr"),
        ("nodes:" + NODE % ("a", "example.org:80"), "IP:PORT"),
    ],
)
def test_a_bad_file_keeps_the_last_good_list_and_says_why(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = FileNodes(written(tmp_path, ("n1", "192.0.2.1:80")), at_once)
    replaced(tmp_path, text)
    file.refresh()
    assert names(file) == ["n1"]
    assert reason in str(file.error)
    written(tmp_path, ("n2", "192.0.2.2:80"))
    file.refresh()
    assert names(file) == ["n2"] and file.error is None


def test_a_missing_file_keeps_the_last_good_list(tmp_path: Path) -> None:
    path = written(tmp_path, ("n1", "192.0.2.1:80"))
    file = FileNodes(path, at_once)
    path.unlink()
    file.refresh()
    assert names(file) == ["n1"] and "No such file" in str(file.error)


def test_a_list_of_none_is_meant(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ("n1", "192.0.2.1:80")), at_once)
    written(tmp_path)
    file.refresh()
    assert file.nodes == () and file.error is None


def test_a_bad_file_at_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        FileNodes(tmp_path / "nodes.yaml", at_once)


def test_reading_happens_apart_from_the_caller() -> None:
    done, seen = threading.Event(), []

    def work() -> None:
        seen.append(threading.current_thread())
        done.set()

    in_thread(work)
    assert done.wait(10.0)
    assert seen[0] is not threading.current_thread()
