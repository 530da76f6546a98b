"""NVML as the source of a topology: real binding and process, a library without a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from isocost.errors import StartError
from isocost.telemetry.topology.groups import instead_of, nvlink_groups, propose
from isocost.telemetry.topology.local import TIMEOUT_S, local_topology
from isocost.telemetry.topology.machine import Link, LinkKind, Topology, pairs
from isocost.telemetry.topology.sysfs import Sysfs
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library
from tests.unit.telemetry.nvlink_machines import DGX1, PciTree, bus_id, linked, switched
from tests.unit.telemetry.topologies import joined

NOT_SUPPORTED, NO_PERMISSION, LOST, UNKNOWN = "!3", "!4", "!15", "!999"
SYS = Link(LinkKind.SYS)


@pytest.fixture(autouse=True, scope="module")
def library() -> None:
    build_library()


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    """This machine's GPUs, as far as NVML goes."""
    gpus = FakeGpus(tmp_path)
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, gpus.environment[name])
    return gpus


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(tmp_path / "sys")


def read(gpus: FakeGpus, tree: PciTree, state: Mapping[str, object]) -> Topology:
    gpus.set({**state})
    told = local_topology(Sysfs(tree.root), TIMEOUT_S)
    assert (told.source, told.reason) == ("NVML", "")
    return told.topology


def nvlinks(topology: Topology) -> dict[tuple[int, int], int]:
    return {pair: link.nvlinks for pair, link in topology.links.items() if link.nvlinks}


def groups(topology: Topology) -> list[tuple[tuple[int, ...], int]]:
    return [(group.gpus, group.nvlinks) for group in nvlink_groups(topology)]


def test_eight_gpus_on_switches_all_reach_each_other(gpus: FakeGpus, tree: PciTree) -> None:
    topology = read(gpus, tree, switched(8, 18))
    assert topology.indices == tuple(range(8))
    assert nvlinks(topology) == dict.fromkeys(pairs(range(8)), 18)
    assert propose(topology, 8).units == (tuple(range(8)),)


def test_a_gpu_that_lost_links_to_the_switches_reaches_all_with_those_that_are_left(
    gpus: FakeGpus, tree: PciTree
) -> None:
    down = {"g3.nvlink.0.active": 0, "g3.nvlink.17.active": 0}
    topology = read(gpus, tree, switched(4, 18) | down)
    assert nvlinks(topology) == {pair: 16 if 3 in pair else 18 for pair in pairs(range(4))}


def test_two_groups_of_four_are_no_group_of_eight(gpus: FakeGpus, tree: PciTree) -> None:
    topology = read(gpus, tree, linked(8, joined((0, 1, 2, 3), (4, 5, 6, 7))))
    assert groups(topology) == [((0, 1, 2, 3), 12), ((4, 5, 6, 7), 12)]
    assert topology.link(3, 4) == SYS
    assert propose(topology, 8).units == ()
    assert instead_of(topology, 8).units == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_four_pairs(gpus: FakeGpus, tree: PciTree) -> None:
    state = linked(8, joined((0, 1), (2, 3), (4, 5), (6, 7)))
    topology = read(gpus, tree, state | {"g0.ancestor.g2": "node", "g2.ancestor.g1": "hostbridge"})
    assert groups(topology) == [((0, 1), 12), ((2, 3), 12), ((4, 5), 12), ((6, 7), 12)]
    assert topology.link(0, 2) == Link(LinkKind.NODE) and topology.link(0, 3) == SYS
    assert topology.link(1, 2) == Link(LinkKind.PHB)


def test_the_cube_of_a_dgx_1(gpus: FakeGpus, tree: PciTree) -> None:
    topology = read(gpus, tree, linked(8, DGX1))
    assert nvlinks(topology) == DGX1
    assert groups(topology) == [((0, 1, 2, 3), 1), ((4, 5, 6, 7), 1)]
    assert topology.link(0, 5) == SYS


def test_a_direct_link_that_is_down_does_not_count(gpus: FakeGpus, tree: PciTree) -> None:
    topology = read(gpus, tree, linked(2, {(0, 1): 4}) | {"g1.nvlink.2.active": 0})
    assert topology.link(0, 1) == Link(LinkKind.NVLINK, 3)


def test_a_pair_whose_links_are_all_down_has_pcie(gpus: FakeGpus, tree: PciTree) -> None:
    down = {"g0.nvlink.0.active": 0, "g1.nvlink.0.active": 0, "g0.ancestor.g1": "multiple"}
    topology = read(gpus, tree, linked(2, {(0, 1): 1}) | down)
    assert topology.nvlinks_known and topology.link(0, 1) == Link(LinkKind.PXB)


@pytest.mark.parametrize(
    ("ancestor", "kind"),
    [
        ("internal", LinkKind.PIX),
        ("single", LinkKind.PIX),
        ("multiple", LinkKind.PXB),
        ("hostbridge", LinkKind.PHB),
        ("node", LinkKind.NODE),
        ("system", LinkKind.SYS),
        ("60", LinkKind.UNKNOWN),
        (NOT_SUPPORTED, LinkKind.UNKNOWN),
        (UNKNOWN, LinkKind.UNKNOWN),
    ],
)
def test_pcie_only(ancestor: str, kind: LinkKind, gpus: FakeGpus, tree: PciTree) -> None:
    topology = read(gpus, tree, linked(2, {}) | {"g0.ancestor.g1": ancestor})
    assert topology.nvlinks_known
    assert topology.link(0, 1) == Link(kind)


def test_gpus_with_mig_on_have_no_nvlinks(gpus: FakeGpus, tree: PciTree) -> None:
    # In MIG mode NVML answers no NVLink queries; a driver that did would show links of no use.
    sliced = {"g0.mig": "1,2", "g0.nvlinks": NOT_SUPPORTED, "g1.mig": "1"}
    topology = read(gpus, tree, switched(4, 18) | sliced)
    assert topology.nvlinks_known and nvlinks(topology) == {(2, 3): 18}
    assert [gpu.mig for gpu in topology.gpus] == [True, True, False, False]


@pytest.mark.parametrize(("answer", "mig"), [(NOT_SUPPORTED, False), (UNKNOWN, None)])
def test_mig_where_nvml_does_not_tell(
    answer: str, mig: bool | None, gpus: FakeGpus, tree: PciTree
) -> None:
    topology = read(gpus, tree, linked(1, {}) | {"g0.mig": answer})
    assert topology.gpus[0].mig is mig


@pytest.mark.parametrize("error", [NO_PERMISSION, UNKNOWN])
def test_links_whose_state_is_not_told_are_not_known(
    error: str, gpus: FakeGpus, tree: PciTree
) -> None:
    topology = read(gpus, tree, switched(2, 4) | {"g1.nvlink.3.active": error})
    assert not topology.nvlinks_known
    assert topology.link(0, 1) == SYS


def test_links_that_lead_nowhere_that_is_told_are_not_known(gpus: FakeGpus, tree: PciTree) -> None:
    untold = {"g1.nvlink.0.remote": UNKNOWN, "g1.nvlink.0.remote_type": NOT_SUPPORTED}
    assert not read(gpus, tree, linked(2, {(0, 1): 4}) | untold).nvlinks_known
    # A switch is one wherever it is.
    assert read(gpus, tree, switched(2, 4) | {"g1.nvlink.0.remote": UNKNOWN}).nvlinks_known


def test_links_to_a_gpu_whose_bus_id_is_not_told_are_not_known(
    gpus: FakeGpus, tree: PciTree
) -> None:
    assert not read(gpus, tree, linked(2, {(0, 1): 4}) | {"g1.pci": UNKNOWN}).nvlinks_known
    assert read(gpus, tree, linked(2, {}) | {"g1.pci": UNKNOWN}).nvlinks_known


def test_a_driver_that_does_not_tell_kinds_of_ends(gpus: FakeGpus, tree: PciTree) -> None:
    """What is no GPU is a switch, unless the kernel says that it is one that NVML does not list."""
    old = {f"g{gpu}.nvlink.{link}.remote_type": "!13" for gpu in (0, 1) for link in range(4)}
    assert nvlinks(read(gpus, tree, switched(2, 4) | old)) == {(0, 1): 4}
    tree.add("pci0000:c0/0000:c1:00.0", **{"class": "0x030200"})
    topology = read(gpus, tree, {})
    assert topology.nvlinks_known and nvlinks(topology) == {}


def test_a_kind_of_end_that_nvml_does_not_know_is_not_told(gpus: FakeGpus, tree: PciTree) -> None:
    odd = {f"g{gpu}.nvlink.0.remote_type": 255 for gpu in (0, 1)}
    assert nvlinks(read(gpus, tree, switched(2, 1) | odd)) == {(0, 1): 1}


def test_a_bus_id_is_the_same_however_it_is_written(gpus: FakeGpus, tree: PciTree) -> None:
    other = {"g0.nvlink.0.remote": bus_id(1).removeprefix("0000").lower()}
    assert nvlinks(read(gpus, tree, linked(2, {(0, 1): 1}) | other)) == {(0, 1): 1}


def test_modules_in_the_users_folder_are_not_imported(
    gpus: FakeGpus, tree: PciTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    assert read(gpus, tree, linked(1, {})).indices == (0,)


def test_links_to_a_gpu_that_this_container_does_not_see(gpus: FakeGpus, tree: PciTree) -> None:
    state = linked(4, joined((0, 1, 2, 3)))
    topology = read(gpus, tree, state | {"gpus": "g1,g3"})
    assert nvlinks(topology) == {(0, 1): 12}


def test_links_to_gpus_and_switches_join_only_the_gpus(gpus: FakeGpus, tree: PciTree) -> None:
    mixed = {"g0.nvlink.0.remote": bus_id(1), "g1.nvlink.0.remote": bus_id(0)}
    assert nvlinks(read(gpus, tree, switched(3, 4) | mixed)) == {(0, 1): 1}


def test_numa_nodes_and_cores_are_the_kernels(gpus: FakeGpus, tree: PciTree) -> None:
    tree.add("pci0000:0f/0000:10:00.0", numa_node=1, local_cpulist="16-31,48,50-51")
    tree.add("pci0000:20/0000:11:00.0", numa_node=-1, local_cpulist="")
    topology = read(gpus, tree, linked(3, {}) | {"g0.numa_node": 4})
    first, second, third = topology.gpus
    assert first.numa_nodes == (1,) and first.own_numa_node == 4
    assert first.cpus == (range(16, 32), range(48, 49), range(50, 52))
    assert second.numa_nodes is second.cpus is second.own_numa_node is None
    assert third.numa_nodes is third.cpus is None and third.nics == ()


def test_nics_by_their_way_to_each_gpu(gpus: FakeGpus, tree: PciTree) -> None:
    switch = "pci0000:0f/0000:0f:01.0/0000:01:00.0"
    tree.add(f"{switch}/0000:02:00.0/0000:10:00.0", numa_node=0)
    tree.add("pci0000:20/0000:20:01.0/0000:11:00.0", numa_node=0)
    tree.add_nic("mlx5_10", f"{switch}/0000:02:01.0/0000:03:00.0", numa_node=0)
    tree.add_nic("mlx5_2", "pci0000:80/0000:80:01.0/0000:81:00.0", numa_node=1)
    topology = read(gpus, tree, linked(2, {}))
    assert topology.gpus[0].nics == (("mlx5_2", LinkKind.SYS), ("mlx5_10", LinkKind.PIX))
    assert topology.gpus[1].nics == (("mlx5_2", LinkKind.SYS), ("mlx5_10", LinkKind.NODE))
    assert topology.gpus[0].nearest_nics == (("mlx5_10", LinkKind.PIX),)


def failure(timeout_s: float = TIMEOUT_S) -> str:
    with pytest.raises(StartError) as caught:
        local_topology(Sysfs(), timeout_s)
    return str(caught.value)


@pytest.mark.parametrize("key", ["init", "g0.nvlink.3.active", "g1.ancestor.g0"])
def test_a_call_that_hangs_is_given_up(key: str, gpus: FakeGpus) -> None:
    gpus.set({**switched(2, 4), key: "hang"})
    assert failure(timeout_s=1.0) == "NVML gave no answer in 1 s"


def test_a_process_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    monkeypatch.setattr(
        "isocost.telemetry.topology.local._NVML",
        ("sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"),
    )
    assert "no answer in 2 s" in failure(timeout_s=2.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_gpu_that_is_lost_is_no_smaller_machine(gpus: FakeGpus) -> None:
    gpus.set({**switched(4, 18), "g2.all": LOST})
    assert failure() == "NVML: it does not open GPU2: GPU is lost"


def test_no_gpu(gpus: FakeGpus) -> None:
    gpus.set({"gpus": ""})
    assert failure() == "NVML: it lists no GPU"


def test_more_gpus_than_a_machine_has(gpus: FakeGpus) -> None:
    gpus.set({"gpus": ",".join(f"g{index}" for index in range(33))})
    assert failure() == "NVML: it lists 33 GPUs; no machine has more than 32"


def test_a_library_that_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "isocost.telemetry.topology.local._NVML", ("sh", "-c", "echo oops >&2; kill -SEGV $$")
    )
    assert failure() == "the process that asks NVML failed with -11: oops"
