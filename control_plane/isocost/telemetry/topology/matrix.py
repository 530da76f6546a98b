"""What `nvidia-smi topo -m` prints, as a Topology."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from isocost.errors import TopologyError
from isocost.telemetry.topology.machine import MAX_GPUS, Gpu, Link, LinkKind, Topology, pairs

#: The header is underlined, also in a pipe.
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_GPU = re.compile(r"GPU([0-9]{1,4})")
_NVLINKS = re.compile(r"NV([0-9]{1,3})")
_CPU_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,4}):\s+(\S+)")
_SELF = "X"
#: The columns behind the devices, in the order in which they are printed.
_NEAR = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_KINDS = {
    **{kind.name: kind for kind in LinkKind if LinkKind.NVLINK < kind < LinkKind.UNKNOWN},
    # What drivers of 2018 and before wrote.
    "SOC": LinkKind.SYS,
    "PSB": LinkKind.PIX,
}
#: `nvidia-smi topo -p2p` prints a matrix of these.
_PEER_TO_PEER = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "U", "DR"})


class _Line(NamedTuple):
    number: int
    text: str

    def error(self, problem: str) -> TopologyError:
        return TopologyError(problem, self.number, self.text)


@dataclass(frozen=True, slots=True)
class _Header:
    devices: tuple[str, ...]
    near: tuple[str, ...]
    line: _Line

    @property
    def gpus(self) -> list[str]:
        return [device for device in self.devices if _GPU.fullmatch(device)]


@dataclass(frozen=True, slots=True)
class _Row:
    """``cells`` has None where a device meets itself."""

    line: _Line
    cells: dict[str, Link | None]
    near: dict[str, str] = field(default_factory=dict)


def read_matrix(text: str) -> Topology:
    """TopologyError: no such matrix, or one that is cut or contradicts itself.

    Text around the matrix (a prompt, a page that it was pasted into) does no harm.
    """
    lines = [
        _Line(number, _TERMINAL_CODE.sub("", line).rstrip())
        for number, line in enumerate(text.split("\n"), start=1)
    ]
    header = _header(lines)
    rows, end = _rows(header, lines)
    _check_complete(header, rows, end)
    _check_symmetric(rows)
    names = _nic_names(lines[end.number - 1 :])
    index = {name: int(name.removeprefix("GPU")) for name in header.gpus}
    links = {}
    for one, other in pairs(range(len(header.gpus))):
        name, peer = header.gpus[one], header.gpus[other]
        link = rows[name].cells[peer]
        if link is not None:
            links[_ordered(index[name], index[peer])] = link
    gpus = sorted((_gpu(index[name], rows[name], names) for name in index), key=lambda g: g.index)
    return Topology(tuple(gpus), links)


def _header(lines: Iterable[_Line]) -> _Header:
    for line in lines:
        words = line.text.split()
        if not words or not _GPU.fullmatch(words[0]) or _SELF in words:
            continue
        near = tuple(column for column in _NEAR if column in line.text)
        rest = line.text.partition(near[0])[0] if near else line.text
        devices = tuple(rest.split())
        if len(set(devices)) != len(devices):
            raise line.error("a device has two columns")
        header = _Header(devices, near, line)
        numbers = [int(name.removeprefix("GPU")) for name in header.gpus]
        if len(set(numbers)) != len(numbers):
            raise line.error("a device has two columns")
        if len(numbers) > MAX_GPUS:
            raise line.error(f"{len(numbers)} GPUs; no machine has more than {MAX_GPUS}")
        return header
    shown = next((line for line in lines if line.text.strip()), None)
    problem = "no line with the columns GPU0, GPU1, ...; this is no output of nvidia-smi topo -m"
    raise TopologyError(problem) if shown is None else shown.error(problem)


def _rows(header: _Header, lines: list[_Line]) -> tuple[dict[str, _Row], _Line]:
    """The rows by device, and the line at which they end."""
    rows: dict[str, _Row] = {}
    line = header.line
    for line in lines[header.line.number :]:
        words = line.text.split()
        if not words:
            continue
        if words[0] not in header.devices:
            if _GPU.fullmatch(words[0]):
                raise line.error(f"{words[0]} has a row and no column")
            break
        if words[0] in rows:
            raise line.error(f"{words[0]} has two rows")
        rows[words[0]] = _row(header, line)
    return rows, line


def _row(header: _Header, line: _Line) -> _Row:
    name, *words = line.text.split()
    count = len(header.devices)
    if len(words) < count:
        raise line.error(f"{name} has {len(words)} cells for {count} devices; the line is cut")
    cells = {
        device: _cell(name, device, word, line)
        for device, word in zip(header.devices, words[:count], strict=True)
    }
    return _Row(line, cells, _near(header, line, words[count:]))


def _cell(name: str, device: str, word: str, line: _Line) -> Link | None:
    if (word == _SELF) != (name == device):
        raise line.error(f"{word} stands between {name} and {device}; X is for a device and itself")
    if word == _SELF:
        return None
    nvlinks = _NVLINKS.fullmatch(word)
    if nvlinks and int(nvlinks[1]):
        return Link(LinkKind.NVLINK, int(nvlinks[1]))
    if word in _KINDS:
        return Link(_KINDS[word])
    hint = "; nvidia-smi topo -m is needed, this is -p2p" if word in _PEER_TO_PEER else ""
    raise line.error(f"{word!r} between {name} and {device} is no kind of link{hint}")


def _near(header: _Header, line: _Line, words: list[str]) -> dict[str, str]:
    """What stands behind the devices' cells, by column; a column that is not sure is left out."""
    columns = header.near
    if len(words) > len(columns):
        raise line.error(f"{len(words)} values for the {len(columns)} columns behind the devices")
    if len(words) == len(columns):
        return dict(zip(columns, words, strict=True))
    # Some are empty. Only tabs still tell which; before GPU NUMA ID there are two.
    fields = [cell.strip() for cell in line.text.split("\t")][len(header.devices) + 1 :]
    if columns == _NEAR and len(fields) == len(columns) + 1:
        del fields[2]
    if len(fields) > len(columns):
        return {}
    return {column: value for column, value in zip(columns, fields, strict=False) if value}


def _check_complete(header: _Header, rows: dict[str, _Row], end: _Line) -> None:
    """Every GPU has its row. NICs may lack theirs: the GPUs' rows have all of them."""
    for name in header.gpus:
        if name not in rows:
            raise end.error(f"{name} has a column and no row; the rows end here")


def _check_symmetric(rows: dict[str, _Row]) -> None:
    for name, row in rows.items():
        for device, link in row.cells.items():
            back = rows[device].cells[name] if device in rows else link
            if link != back:
                raise row.line.error(
                    f"{name} to {device} is {link}, but line {rows[device].line.number} "
                    f"has {back} for the way back"
                )


def _nic_names(lines: Iterable[_Line]) -> dict[str, str]:
    found = (_LEGEND.fullmatch(line.text) for line in lines)
    return {match[1]: match[2] for match in found if match}


def _gpu(index: int, row: _Row, names: dict[str, str]) -> Gpu:
    nics = tuple(
        (names.get(device, device), link.kind)
        for device, link in row.cells.items()
        if link is not None and not _GPU.fullmatch(device)
    )
    cpus, numa_nodes, own = (
        _numbers(row, column) if column in row.near else None for column in _NEAR
    )
    return Gpu(
        index,
        numa_nodes=None if numa_nodes is None else tuple(_each(numa_nodes)),
        cpus=cpus,
        own_numa_node=None if own is None else own[0].start,
        nics=nics,
    )


def _numbers(row: _Row, column: str) -> tuple[range, ...] | None:
    """0-31,64-95 as ranges; None where the tool writes that it does not know (N/A)."""
    word = row.near[column]
    if word in {"N/A", "[N/A]", "-", "-1"}:
        return None
    ranges = []
    for part in word.split(","):
        match = _CPU_RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if last < first:
            raise row.line.error(f"{column}: {part!r} is no number and no range of numbers")
        ranges.append(range(first, last + 1))
    return tuple(ranges)


def _each(ranges: Iterable[range]) -> Iterator[int]:
    for run in ranges:
        yield from run


def _ordered(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
