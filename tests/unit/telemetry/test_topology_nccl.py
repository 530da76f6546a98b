"""NCCL's topology files: PCIe is always there, NVLinks only in a dump."""

from __future__ import annotations

import pytest

from isocost.errors import TopologyError
from isocost.telemetry.topology.groups import nvlink_groups
from isocost.telemetry.topology.machine import LinkKind, ranges_text
from isocost.telemetry.topology.nccl import read_nccl
from isocost.telemetry.topology.read import read_topology
from tests.unit.telemetry.topologies import text


@pytest.mark.parametrize(
    ("file", "count", "kinds", "numa_nodes", "last_cpus"),
    [
        (
            "aws-p4d-24xl-topo.xml",
            8,
            ("PIX", "PHB", "SYS"),
            (0, 0, 0, 0, 1, 1, 1, 1),
            "24-47,72-95",
        ),
        ("azure-ncv4-topo.xml", 4, ("SYS", "SYS", "SYS"), (0, 1, 2, 3), "72-95"),
        ("azure-ndv4-topo.xml", 8, ("PIX", "SYS", "SYS"), (0, 0, 1, 1, 2, 2, 3, 3), "72-95"),
        ("azure-ndv5-topo.xml", 8, ("PHB", "PHB", "SYS"), (0, 0, 0, 0, 1, 1, 1, 1), "48-95"),
    ],
)
def test_the_pcie_side_of_cloud_machines(
    file: str, count: int, kinds: tuple[str, str, str], numa_nodes: tuple[int, ...], last_cpus: str
) -> None:
    topology = read_nccl(text(file))
    assert topology.indices == tuple(range(count))
    ways = (topology.link(0, 1), topology.link(1, 2), topology.link(0, count - 1))
    assert tuple(link.kind.name for link in ways) == kinds
    assert tuple((gpu.numa_nodes or (-1,))[0] for gpu in topology.gpus) == numa_nodes
    assert ranges_text(topology.gpus[-1].cpus or ()) == last_cpus
    assert not topology.nvlinks_known


def test_the_nic_behind_the_same_switch_is_the_nearest() -> None:
    aws = read_nccl(text("aws-p4d-24xl-topo.xml"))
    assert aws.gpus[1].nearest_nics == (("0000:10:1b.0", LinkKind.PIX),)
    azure = read_nccl(text("azure-ndv5-topo.xml"))
    assert azure.gpus[7].nearest_nics == (("0108:00:00.0", LinkKind.PIX),)


def dump(*gpus: str) -> str:
    """Each on a root port of its own; ``gpus`` are the <nvlink> elements."""
    return (
        '<system version="1"><cpu numaid="0" affinity="ff">'
        + "".join(
            f'<pci busid="{number}" class="0x030200"><gpu dev="{number}" rank="{number}">'
            f"{nvlinks}</gpu></pci>"
            for number, nvlinks in enumerate(gpus)
        )
        + '<pci busid="n" class="0x020700"><nic><net name="mlx5_0"/></nic></pci></cpu></system>'
    )


def direct(target: int, count: int) -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="0x030200"/>'


SWITCH = '<nvlink target="s" count="9" tclass="0x068000"/>' * 2


def test_a_dump_tells_direct_nvlinks() -> None:
    topology = read_topology(dump(direct(1, 4), direct(0, 4), direct(3, 2), direct(2, 2)))
    assert topology.nvlinks_known
    assert [(group.gpus, group.nvlinks) for group in nvlink_groups(topology)] == [
        ((0, 1), 4),
        ((2, 3), 2),
    ]
    assert topology.link(1, 2).kind is LinkKind.PHB
    assert topology.gpus[0].nics == (("mlx5_0", LinkKind.PHB),)


def test_a_dump_tells_nvlinks_over_switches() -> None:
    topology = read_nccl(dump(SWITCH, SWITCH, ""))
    assert str(topology.link(0, 1)) == "NV18" and topology.link(1, 2).nvlinks == 0


def test_a_dump_without_any_nvlink_has_none() -> None:
    topology = read_nccl(dump("", ""))
    assert topology.nvlinks_known and topology.link(0, 1).nvlinks == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<system>", "line 1: not XML"),
        ("<html></html>", "line 1: <html> is not NCCL's <system>"),
        ("<system>\n<cpu/></system>", "no GPU"),
        ('<system>\n<cpu numaid="x"/></system>', "line 2: numaid='x' is no number"),
        ('<system>\n<cpu affinity="0x1"/></system>', "line 2: affinity='0x1' is no mask"),
        ('<system><pci class="0x030200"/></system>', "a <pci> without busid"),
        ("<system>\n\n</cpu>", "line 3: not XML: mismatched tag"),
        (
            '<system><pci class="0x0302" busid="1"/>\n<pci class="0x0302" busid="1"/></system>',
            "line 2: busid 1 is there twice",
        ),
        ('<!DOCTYPE a [<!ENTITY b "c">]><system/>', "line 1: a DOCTYPE is not allowed"),
        (dump("", "").replace('dev="1"', 'dev="0"'), "two GPUs have dev=0"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(content: str, said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_topology(content)
    assert said in str(caught.value)
