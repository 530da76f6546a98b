"""The node list file: read again when it changes, and never worse than the last good one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from isocost.discovery.file import SETTLE_S, FileNodes, in_thread
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
    file = FileNodes(written(tmp_path, ("n1", "192.0.2.1:80")), at_once, 0.0)
    (node,) = file.nodes
    assert node.instance_id == "n1@0" and node.address == "192.0.2.1:80"
    assert node.models[0].name == "m"


def test_a_change_is_seen_also_with_an_equal_time_and_size(tmp_path: Path) -> None:
    path = written(tmp_path, ("n1", "192.0.2.1:80"))
    os.utime(path, ns=(1, 1))
    file = FileNodes(path, at_once, 0.0)
    written(tmp_path, ("n2", "192.0.2.1:80"))
    os.utime(path, ns=(1, 1))
    file.refresh(0.0)
    assert names(file) == ["n2"]


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    readings: list[Callable[[], None]] = []
    file = FileNodes(written(tmp_path, ("n1", "192.0.2.1:80")), readings.append, 0.0)
    file.refresh(0.0)
    assert readings == []
    written(tmp_path, ("n2", "192.0.2.1:80"))
    file.refresh(0.0)
    written(tmp_path, ("n3", "192.0.2.1:80"))
    file.refresh(0.0)
    assert len(readings) == 1, "a second reading began before the first had ended"
    readings.pop()()
    file.refresh(0.0)
    readings.pop()()
    assert names(file) == ["n3"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nodes: it is required"),
        ("nodes: [", "not YAML"),
        ("nodes: [{name: n1}]", "nodes.0.address"),
        ("nodse: []", "unknown key; known here: nodes"),
        ("nodes:" + NODE % ("a", "192.0.2.1:80") + NODE % ("a", "192.0.2.2:80"), "nodes.1.name"),
        ("nodes:" + NODE % ("a", "192.0.2.1:80") + NODE % ("b", "192.0.2.1:80"), "nodes.1.addr"),
        ("nodes:" + NODE % ("a", "10.1:80"), "IP:PORT"),
        ("nodes:" + NODE % ("a", "example.org"), "HOST:PORT"),
        ("nodes:" + NODE % ("a", "::1:80:"), "IP:PORT"),
    ],
)
def test_a_bad_file_keeps_the_last_good_list_and_says_why(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = FileNodes(written(tmp_path, ("n1", "192.0.2.1:80")), at_once, 0.0)
    replaced(tmp_path, text)
    file.refresh(0.0)
    assert names(file) == ["n1"]
    assert reason in str(file.error)
    written(tmp_path, ("n2", "192.0.2.1:80"))
    file.refresh(0.0)
    assert names(file) == ["n2"] and file.error is None


def test_a_name_is_listed_as_it_stands(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ("n1", "gpu-1.example.org:80")), at_once, 0.0)
    assert [node.address for node in file.nodes] == ["gpu-1.example.org:80"]


def test_as_a_source_it_is_as_current_as_its_last_good_look(tmp_path: Path) -> None:
    path = written(tmp_path, ("n1", "192.0.2.1:80"))
    file = FileNodes(path, at_once, 5.0)
    first = file.source
    assert (first.name, first.confirmed_s, first.error) == ("file", 5.0, None)
    file.refresh(6.0)
    assert file.source.listing is first.listing and file.source.confirmed_s == 6.0
    replaced(tmp_path, "nodes: 7")
    file.refresh(7.0)
    file.refresh(8.0)
    assert file.source.listing is first.listing and file.source.confirmed_s == 6.0
    assert "nodes: 7" in str(file.source.error)


def test_a_missing_file_keeps_the_last_good_list(tmp_path: Path) -> None:
    path = written(tmp_path, ("n1", "192.0.2.1:80"))
    file = FileNodes(path, at_once, 0.0)
    path.unlink()
    file.refresh(0.0)
    assert names(file) == ["n1"] and "No such file" in str(file.error)


ONE, TWO, THREE = (("n1", "192.0.2.1:80"), ("n2", "192.0.2.2:80"), ("n3", "192.0.2.3:80"))


def test_a_list_of_none_is_meant_when_it_is_said_twice(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ONE), at_once, 0.0)
    written(tmp_path)
    for now_s in (0.0, SETTLE_S - 0.1):
        file.refresh(now_s)
        assert names(file) == ["n1"]
    file.refresh(SETTLE_S)
    assert file.nodes == () and file.error is None


def test_a_list_cut_short_for_a_moment_loses_no_node(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ONE, TWO), at_once, 0.0)
    written(tmp_path, ONE)
    file.refresh(0.0)
    assert names(file) == ["n1", "n2"]
    written(tmp_path, ONE, TWO, THREE)
    for now_s in (1.0, 1.0 + SETTLE_S):
        file.refresh(now_s)
        assert names(file) == ["n1", "n2", "n3"]


def test_another_shorter_list_has_to_be_said_twice_as_well(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ONE, TWO, THREE), at_once, 0.0)
    written(tmp_path, ONE, TWO)
    file.refresh(0.0)
    written(tmp_path, ONE)
    file.refresh(SETTLE_S)
    assert sorted(names(file)) == ["n1", "n2", "n3"]
    written(tmp_path, ONE)
    file.refresh(SETTLE_S + 1.0)
    file.refresh(2 * SETTLE_S)
    assert names(file) == ["n1"], "the same list written again began anew"


def test_a_bad_file_does_not_confirm_a_shorter_list(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ONE, TWO), at_once, 0.0)
    written(tmp_path, ONE)
    file.refresh(0.0)
    replaced(tmp_path, "nodes: [")
    file.refresh(SETTLE_S)
    assert names(file) == ["n1", "n2"] and file.error is not None
    written(tmp_path, ONE)
    file.refresh(SETTLE_S + 1.0)
    assert names(file) == ["n1", "n2"] and file.error is None
    file.refresh(2 * SETTLE_S)
    assert names(file) == ["n1"]


def test_a_name_or_an_address_that_another_node_takes_is_its_own_at_once(tmp_path: Path) -> None:
    file = FileNodes(written(tmp_path, ONE, TWO), at_once, 0.0)
    written(tmp_path, ("n1", "192.0.2.9:80"), ("n4", "192.0.2.2:80"))
    file.refresh(0.0)
    assert [(node.name, node.address) for node in file.nodes] == [
        ("n1", "192.0.2.9:80"),
        ("n4", "192.0.2.2:80"),
    ]


def test_addresses_are_kept_as_envoy_prints_them(tmp_path: Path) -> None:
    file = FileNodes(
        written(tmp_path, ("n1", "192.0.2.1:080"), ("n2", "[2001:DB8::1]:80")), at_once, 0.0
    )
    assert [node.address for node in file.nodes] == ["192.0.2.1:80", "[2001:db8::1]:80"]
    replaced(tmp_path, "nodes:" + NODE % ("n1", "[fe80::1%eth0]:80"))
    file.refresh(0.0)
    assert "nodes.0.address: '[fe80::1%eth0]:80' is not allowed; must have no zone" in str(
        file.error
    )


def test_a_bad_file_at_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        FileNodes(tmp_path / "nodes.yaml", at_once, 0.0)


def test_reading_happens_apart_from_the_caller() -> None:
    done, seen = threading.Event(), []

    def work() -> None:
        seen.append(threading.current_thread())
        done.set()

    in_thread(work)
    assert done.wait(10.0)
    assert seen[0] is not threading.current_thread()
