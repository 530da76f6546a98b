"""What nvidia-smi prints about several machines, and what it never prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.errors import TopologyError
from isocost.telemetry.topology.machine import Link, LinkKind, Topology, ranges_text
from isocost.telemetry.topology.matrix import read_matrix
from tests.unit.telemetry.topologies import text

PIX, PHB, NODE, SYS = (Link(LinkKind[name]) for name in ("PIX", "PHB", "NODE", "SYS"))


def nvlink(count: int) -> Link:
    return Link(LinkKind.NVLINK, count)


def near(topology: Topology, index: int) -> tuple[tuple[int, ...] | None, str | None]:
    gpu = topology.gpus[index]
    return gpu.numa_nodes, None if gpu.cpus is None else ranges_text(gpu.cpus)


def nics(topology: Topology, index: int) -> tuple[list[str], set[str]]:
    found = topology.gpus[index].nearest_nics
    return [name for name, _ in found], {kind.name for _, kind in found}


@pytest.mark.parametrize(
    ("file", "count", "kinds"),
    [
        ("a100-8x-nv12-17nic.txt", 8, {nvlink(12)}),
        ("a800-8x-nv8-4nic.txt", 8, {nvlink(8)}),
        ("h200-8x-nv18-10nic.txt", 8, {nvlink(18)}),
        ("a100pcie-8x-nv12-pairs-2x4.txt", 8, {nvlink(12), NODE, SYS}),
        ("a6000-3x-nv4-pair.txt", 3, {nvlink(4), NODE}),
        ("pcie-8x-pix-phb-sys-2x4.txt", 8, {PIX, PHB, SYS}),
        ("rtx6000ada-4x-pcie-node-sys-4nic.txt", 4, {NODE, SYS}),
        ("rtx6000ada-2x-pcie-phb-2nic.txt", 2, {PHB}),
        ("h100-80gb-hbm3-1x.txt", 1, set()),
        ("l40s-1x.txt", 1, set()),
    ],
)
def test_every_recorded_machine_is_read_whole(file: str, count: int, kinds: set[Link]) -> None:
    topology = read_matrix(text(file))
    assert topology.indices == tuple(range(count))
    assert len(topology.links) == count * (count - 1) // 2
    assert set(topology.links.values()) == kinds
    assert all(gpu.own_numa_node is None for gpu in topology.gpus)


def test_tabs_and_underlines() -> None:
    topology = read_matrix(text("h200-8x-nv18-10nic.txt"))
    assert near(topology, 0) == ((0,), "0-63,128-191")
    assert near(topology, 7) == ((1,), "64-127,192-255")
    assert nics(topology, 0) == (["mlx5_3"], {"PIX"})
    assert nics(topology, 3) == (["mlx5_0", "mlx5_1", "mlx5_2"], {"PIX"})
    assert len(topology.gpus[0].nics) == 10


def test_spaces_and_line_ends_of_another_system() -> None:
    topology = read_matrix(text("a800-8x-nv8-4nic.txt"))
    assert near(topology, 7) == ((1,), "32-63,96-127")
    assert nics(topology, 1) == (["mlx5_0"], {"PIX"})
    assert nics(topology, 0) == (["mlx5_0", "mlx5_1"], {"NODE"})
    assert nics(topology, 7) == (["mlx5_2", "mlx5_3"], {"PIX"})


def test_four_nics_behind_one_switch_and_one_far_away() -> None:
    topology = read_matrix(text("a100-8x-nv12-17nic.txt"))
    assert near(topology, 5) == ((0,), "0-103")
    assert nics(topology, 5) == (["mlx5_10", "mlx5_11", "mlx5_12", "mlx5_13"], {"PXB"})
    assert topology.gpus[5].nics[16] == ("mlx5_bond_0", LinkKind.SYS)


def test_an_old_header_without_numa_columns() -> None:
    topology = read_matrix(text("pcie-8x-pix-phb-sys-2x4.txt"))
    assert near(topology, 4) == (None, "10-19,30-39")
    assert nics(topology, 0) == (["mlx4_0"], {"PHB"})
    assert topology.link(1, 0) == PIX and topology.link(0, 2) == PHB and topology.link(3, 4) == SYS


def test_pairs_and_a_gpu_alone() -> None:
    pairs = read_matrix(text("a100pcie-8x-nv12-pairs-2x4.txt"))
    assert pairs.link(0, 1) == pairs.link(7, 6) == nvlink(12)
    assert pairs.link(1, 2) == NODE and pairs.link(3, 4) == SYS
    three = read_matrix(text("a6000-3x-nv4-pair.txt"))
    assert three.link(0, 1) == nvlink(4) and three.link(1, 2) == NODE
    assert near(three, 2) == ((0,), "0-31,64-95") and three.gpus[2].nearest_nics == ()


def test_names_of_old_drivers() -> None:
    topology = read_matrix(
        "\tGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\n"
        "GPU0\t X \tPSB\tSOC\tSOC\t0-0,8-8,16-16\n"
        "GPU1\tPSB\t X \tSOC\tSOC\t0-0,8-8,16-16\n"
        "GPU2\tSOC\tSOC\t X \tPHB\t1\n"
        "mlx5_0\tSOC\tSOC\tPHB\t X\n"
    )
    assert topology.link(0, 1) == PIX and topology.link(0, 2) == SYS
    assert near(topology, 0) == (None, "0,8,16") and near(topology, 2) == (None, "1")


HEADER = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"


@pytest.mark.parametrize(
    ("behind", "cpus", "numa_nodes", "own"),
    [
        ("\t0-71\t0\t\t1", "0-71", (0,), 1),
        ("\tN/A\tN/A\t\tN/A", None, None, None),
        ("\t\t\t\tN/A", None, None, None),
        ("\t0-7\t\t\tN/A", "0-7", None, None),
        ("\t\t1\t\tN/A", None, (1,), None),
        ("\t0-7\t0-1\t\tN/A", "0-7", (0, 1), None),
        ("\t0-7", "0-7", None, None),
        ("", None, None, None),
        # Without tabs nobody can tell which of the values is missing.
        ("  0-7   0", None, None, None),
        ("  0-7   0    N/A", "0-7", (0,), None),
    ],
)
def test_what_is_empty_is_unknown(
    behind: str, cpus: str | None, numa_nodes: tuple[int, ...] | None, own: int | None
) -> None:
    rows = f"GPU0\t X \tNV18{behind}\nGPU1\tNV18\t X {behind}\n"
    topology = read_matrix(HEADER + rows)
    for index in (0, 1):
        assert near(topology, index) == (numa_nodes, cpus)
        assert topology.gpus[index].own_numa_node == own


def test_text_around_the_matrix_does_no_harm() -> None:
    file = text("h200-8x-nv18-10nic.txt")
    assert read_matrix(f"$ nvidia-smi topo -m\n```\n{file}\n```\n$ exit\n") == read_matrix(file)


def test_nics_may_lack_their_rows() -> None:
    file = text("a800-8x-nv8-4nic.txt")
    cut = "".join(line for line in file.splitlines(True) if not line.startswith("NIC"))
    assert read_matrix(cut) == read_matrix(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no output of nvidia-smi topo -m"),
        (
            "NVIDIA-SMI has failed because it could not reach the driver.\n",
            "line 1: no line with the columns GPU0",
        ),
        ("GPU0 GPU1\nGPU0 X NV4\n", "line 3: GPU1 has a column and no row"),
        ("GPU0 GPU1\nGPU0 X NV4\n$ exit", "no row; the rows end here: '$ exit'"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4\n", "line 3: GPU1 has 1 cells for 2 devices"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU0 X NV4\n", "line 3: GPU0 has two rows"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU2 NV4 X\n", "line 3: GPU2 has a row and no column"),
        ("GPU0 GPU0\nGPU0 X NV4\n", "line 1: a device has two columns"),
        ("GPU0 GPU00\nGPU0 X NV4\n", "line 1: a device has two columns"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV2 X\n", "line 2: GPU0 to GPU1 is NV4, but line 3 has NV2"),
        ("GPU0 GPU1\nGPU0 X X\nGPU1 NV2 X\n", "line 2: X stands between GPU0 and GPU1"),
        ("GPU0 GPU1\nGPU0 NV4 NV4\n", "line 2: NV4 stands between GPU0 and GPU0"),
        ("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n", "line 2: 'NV0' between GPU0 and GPU1"),
        ("GPU0 GPU1\nGPU0 X \N{ARABIC-INDIC DIGIT THREE}\n", "is no kind of link"),
        ("GPU0 CPU Affinity\nGPU0 X 7-0\n", "line 2: CPU Affinity: '7-0' is no number"),
        ("GPU0 CPU Affinity\nGPU0 X 0-7 0\n", "line 2: 2 values for the 1 columns"),
        (" ".join(f"GPU{index}" for index in range(33)), "line 1: 33 GPUs; no machine has more"),
    ],
)
def test_a_bad_matrix_is_refused_with_its_line(content: str, said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_matrix(content)
    assert said in str(caught.value)


def test_the_peer_to_peer_table_is_named() -> None:
    with pytest.raises(TopologyError, match="topo -m is needed, this is -p2p") as caught:
        read_matrix(text("4gpu-topo-p2p-pairs.txt"))
    assert caught.value.line_number == 2


WORDS = ("GPU0", "GPU1", "GPU7", "NIC0", "X", "NV4", "SYS", "N/A", "0-7", "-", "CPU Affinity", "")


@given(st.lists(st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=6), max_size=6))
def test_whatever_the_text_it_is_a_topology_or_one_clear_error(lines: list[list[str]]) -> None:
    try:
        topology = read_matrix("\n".join("\t".join(line) for line in lines))
    except TopologyError:
        return
    assert topology.gpus
    assert len(topology.links) == len(topology.gpus) * (len(topology.gpus) - 1) // 2


@given(st.data())
def test_a_recorded_file_with_one_changed_line_is_read_or_refused(data: st.DataObject) -> None:
    lines = text("h200-8x-nv18-10nic.txt").split("\n")
    place = data.draw(st.integers(0, 20))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(lines[place]))] * 2)))
    lines[place] = lines[place][:start] + data.draw(st.text(max_size=5)) + lines[place][end:]
    try:
        topology = read_matrix("\n".join(lines))
    except TopologyError:
        return
    assert len(topology.links) == len(topology.gpus) * (len(topology.gpus) - 1) // 2
