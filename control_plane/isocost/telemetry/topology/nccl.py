"""NCCL's topology XML (what NCCL_TOPO_FILE names and NCCL_TOPO_DUMP_FILE receives), as a Topology.

Files made for NCCL_TOPO_FILE mostly leave out NVLinks, because NCCL asks the driver for them; a
dump of a running NCCL has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from isocost.errors import TopologyError
from isocost.telemetry.topology.machine import (
    MAX_GPUS,
    Gpu,
    Link,
    LinkKind,
    Topology,
    pairs,
    ranges_of,
)

_GPU_CLASSES = ("0x0302", "0x0300")
_NIC_CLASSES = ("0x0207", "0x0200")
_SWITCH_CLASS = "0x0680"
_MASK = re.compile(r"[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{1,8}){0,127}")
_NUMBER = re.compile(r"[0-9]{1,6}")

Attributes = dict[str, str]


@dataclass(slots=True)
class _Device:
    """A GPU or a NIC: the CPU and the PCIe switches above it, the outermost first."""

    bus: str
    element: int
    line_number: int
    cpu: int | None
    path: tuple[int, ...]
    #: Only in a dump: NCCL's number of the GPU, and (target, target's class, count) of its NVLinks.
    dev: int | None = None
    nvlinks: list[tuple[str, str, int]] | None = None
    #: Only in a dump: what the system calls the NIC.
    net: str | None = None


@dataclass(slots=True)
class _Cpu:
    numa_node: int | None
    cpus: tuple[range, ...] | None


@dataclass(slots=True)
class _Reader:
    parser: expat.XMLParserType
    cpus: list[_Cpu] = field(default_factory=list)
    gpus: list[_Device] = field(default_factory=list)
    nics: list[_Device] = field(default_factory=list)
    #: (tag, a number of its own) of every open element, the outermost first.
    open: list[tuple[str, int]] = field(default_factory=list)
    elements: int = 0

    def error(self, problem: str) -> TopologyError:
        return TopologyError(problem, self.parser.CurrentLineNumber)

    def doctype(self, *_: object) -> None:
        raise self.error("a DOCTYPE is not allowed here")

    def start(self, tag: str, attributes: Attributes) -> None:
        if not self.open and tag != "system":
            raise self.error(f"<{tag}> is not NCCL's <system>")
        self.elements += 1
        if tag == "cpu":
            self.cpus.append(
                _Cpu(self._number(attributes, "numaid"), self._mask(attributes.get("affinity")))
            )
        elif tag == "pci":
            self._pci(attributes)
        elif tag == "gpu" and (gpu := self._inside(self.gpus)):
            gpu.dev = self._number(attributes, "dev")
            gpu.nvlinks = []
        elif tag == "nvlink" and (gpu := self._inside(self.gpus)) and gpu.nvlinks is not None:
            count = self._number(attributes, "count") or 0
            gpu.nvlinks.append((attributes.get("target", ""), attributes.get("tclass", ""), count))
        elif tag == "net" and (nic := self._inside(self.nics)):
            nic.net = nic.net or attributes.get("name")
        self.open.append((tag, self.elements))

    def end(self, _: str) -> None:
        self.open.pop()

    def _pci(self, attributes: Attributes) -> None:
        kind, bus = attributes.get("class", ""), attributes.get("busid", "")
        found = None
        if kind.startswith(_GPU_CLASSES):
            found = self.gpus
        elif kind.startswith(_NIC_CLASSES):
            found = self.nics
        if found is None:
            return
        if not bus:
            raise self.error("a <pci> without busid")
        if any(device.bus == bus for device in (*self.gpus, *self.nics)):
            raise self.error(f"busid {bus} is there twice")
        path = tuple(number for tag, number in self.open if tag == "pci")
        cpu = len(self.cpus) - 1 if any(tag == "cpu" for tag, _ in self.open) else None
        found.append(_Device(bus, self.elements, self.parser.CurrentLineNumber, cpu, path))
        if len(self.gpus) > MAX_GPUS:
            raise self.error(f"more GPUs than the {MAX_GPUS} that a machine may have")

    @property
    def _open_elements(self) -> set[int]:
        return {number for _, number in self.open}

    def _inside(self, devices: list[_Device]) -> _Device | None:
        """The newest of these, while its element is open."""
        return devices[-1] if devices and devices[-1].element in self._open_elements else None

    def _number(self, attributes: Attributes, name: str) -> int | None:
        """None: not there, or -1, NCCL's unknown."""
        text = attributes.get(name, "-1")
        if text == "-1":
            return None
        if not _NUMBER.fullmatch(text):
            raise self.error(f"{name}={text!r} is no number")
        return int(text)

    def _mask(self, text: str | None) -> tuple[range, ...] | None:
        """Cores as NCCL and the kernel write them: words of 32 bits, the highest first."""
        if not text:
            return None
        if not _MASK.fullmatch(text):
            raise self.error(f"affinity={text!r} is no mask of cores")
        bits = int("".join(word.zfill(8) for word in text.split(",")), 16)
        return ranges_of(core for core in range(bits.bit_length()) if bits >> core & 1) or None


def read_nccl(text: str) -> Topology:
    """TopologyError: not XML, not NCCL's, or without GPUs.

    A NIC without a name is called by its PCIe address.
    """
    parser = expat.ParserCreate()
    reader = _Reader(parser)
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(text.encode(errors="replace"), True)
    except expat.ExpatError as error:
        raise TopologyError(f"not XML: {expat.ErrorString(error.code)}", error.lineno) from error
    if not reader.gpus:
        raise TopologyError("no GPU (a <pci> of class 0x0302) in this file")
    indices = _indices(reader.gpus)
    known = all(gpu.nvlinks is not None and not _to_itself(gpu) for gpu in reader.gpus)
    by_index = dict(sorted(zip(indices, reader.gpus, strict=True)))
    links = {
        (one, other): _link(by_index[one], by_index[other], known) for one, other in pairs(indices)
    }
    gpus = tuple(_gpu(index, gpu, reader) for index, gpu in by_index.items())
    return Topology(gpus, links, nvlinks_known=known)


def _indices(gpus: list[_Device]) -> list[int]:
    """NCCL's own numbers where all have one, else the order of the file."""
    numbers = [gpu.dev for gpu in gpus if gpu.dev is not None]
    if len(numbers) < len(gpus):
        return list(range(len(gpus)))
    for place, number in enumerate(numbers):
        if number in numbers[:place]:
            raise TopologyError(f"two GPUs have dev={number}", gpus[place].line_number)
    return numbers


def _to_itself(gpu: _Device) -> bool:
    """Azure's file for NC A100 v4 has such links; they hide where the NVLinks really end."""
    return any(target == gpu.bus for target, _, _ in gpu.nvlinks or ())


def _link(one: _Device, other: _Device, nvlinks_known: bool) -> Link:
    nvlinks = _nvlinks(one, other) if nvlinks_known else 0
    return Link(LinkKind.NVLINK, nvlinks) if nvlinks else Link(_way(one, other))


def _nvlinks(one: _Device, other: _Device) -> int:
    """Direct ones, or those to the switch that both have."""

    def direct(gpu: _Device, peer: _Device) -> int:
        return sum(count for target, _, count in gpu.nvlinks or () if target == peer.bus)

    def switched(gpu: _Device) -> int:
        return sum(count for _, kind, count in gpu.nvlinks or () if kind.startswith(_SWITCH_CLASS))

    return min(direct(one, other), direct(other, one)) or min(switched(one), switched(other))


def _way(one: _Device, other: _Device) -> LinkKind:
    """The way over PCIe. One CPU counts as one host bridge: NCCL knows no more."""
    if one.cpu != other.cpu or one.cpu is None:
        return LinkKind.SYS
    shared = [left for left, right in zip(one.path, other.path, strict=False) if left == right]
    if not shared:
        return LinkKind.PHB
    beyond = len(one.path) + len(other.path) - 2 * len(shared)
    return LinkKind.PXB if beyond else LinkKind.PIX


def _gpu(index: int, gpu: _Device, reader: _Reader) -> Gpu:
    cpu = None if gpu.cpu is None else reader.cpus[gpu.cpu]
    return Gpu(
        index,
        numa_nodes=None if cpu is None or cpu.numa_node is None else (cpu.numa_node,),
        cpus=None if cpu is None else cpu.cpus,
        nics=tuple((nic.net or nic.bus, _way(gpu, nic)) for nic in reader.nics),
    )
