"""What `isocost topology` says to people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from isocost.output import printable
from isocost.telemetry.topology.groups import (
    Group,
    Proposal,
    components,
    farthest,
    not_linked,
    nvlink_groups,
    weak_pairs,
)
from isocost.telemetry.topology.local import Told
from isocost.telemetry.topology.machine import (
    Gpu,
    Link,
    Topology,
    pairs,
    ranges_of,
    ranges_text,
)


def gpus_text(indices: Iterable[int]) -> str:
    """GPU0-3,6"""
    return "GPU" + ranges_text(ranges_of(indices))


def source_text(told: Told) -> str:
    """Who told it, and why it was not NVML."""
    return printable(f"from {told.source}" + (f" ({told.reason})" if told.reason else ""))


def drawing(topology: Topology, min_nvlinks: int, source: str) -> str:
    """The machine group by group, and how far the groups are from each other."""
    lines = []
    count = _count(len(topology.gpus), "GPU")
    if topology.nvlinks_known:
        groups = nvlink_groups(topology, min_nvlinks)
        lines.append(f"{count}: {_summary(groups, min_nvlinks)}")
        lines += _half_connected(topology, groups, min_nvlinks)
    else:
        groups = tuple(Group((index,), 0) for index in topology.indices)
        lines.append(f"{count}; {source} tells only the ways over PCIe, not the NVLinks")
    gpus = {gpu.index: gpu for gpu in topology.gpus}
    blocks = [(_title(topology, group), group.gpus) for group in groups if len(group.gpus) > 1]
    if alone := tuple(group.gpus[0] for group in groups if len(group.gpus) == 1):
        blocks.append((_alone_title(topology, alone, min_nvlinks), alone))
    for title, indices in blocks:
        lines += ["", title, *(f"  {_gpu_text(gpus[index])}" for index in indices)]
    if len(groups) > 1:
        lines += ["", "between them, the farthest way:"]
        lines += _matrix(topology, groups)
    return printable("\n".join(lines))


def verdict_text(
    topology: Topology,
    min_nvlinks: int,
    proposal: Proposal | None,
    instead: Proposal | None,
    too_few: bool,
) -> Iterator[str]:
    """The answers to what was asked, with reasons for a no."""
    if too_few:
        yield ""
        yield from _too_few_text(topology, min_nvlinks)
    if proposal is not None:
        yield ""
        if instead is None:
            yield _units_text(proposal)
        else:
            yield from _no_text(topology, min_nvlinks, proposal, instead)


def _summary(groups: tuple[Group, ...], min_nvlinks: int) -> str:
    joined = [group for group in groups if len(group.gpus) > 1]
    if len(groups) == 1 and not joined:
        return "nothing to join"
    if not joined:
        return f"no two have {_links(min_nvlinks)} between them"
    if len(groups) == 1:
        return f"{_links(min_nvlinks)} between every two"
    if len(joined) == 1:
        return f"{_links(min_nvlinks)} between every two of {gpus_text(joined[0].gpus)} only"
    names = ", ".join(gpus_text(group.gpus) for group in joined)
    return f"not one NVLink group but {len(joined)}: {names}"


def _half_connected(
    topology: Topology, groups: tuple[Group, ...], min_nvlinks: int
) -> Iterator[str]:
    for component in components(topology, min_nvlinks):
        parts = [gpus_text(group.gpus) for group in groups if group.gpus[0] in component]
        if len(parts) > 1:
            yield (
                f"{gpus_text(component)} reach each other over NVLinks, not every two directly; "
                f"fully connected are {', '.join(parts)}"
            )


def _title(topology: Topology, group: Group) -> str:
    most = max(topology.link(*pair).nvlinks for pair in pairs(group.gpus))
    upto = "" if most == group.nvlinks else f" to NV{most}"
    return f"{gpus_text(group.gpus)}, NV{group.nvlinks}{upto} between every two:"


def _alone_title(topology: Topology, alone: Sequence[int], min_nvlinks: int) -> str:
    if not topology.nvlinks_known or len(topology.gpus) == 1:
        return f"{gpus_text(alone)}:"
    each = "" if len(alone) == 1 else ", each"
    what = "without NVLinks" if min_nvlinks == 1 else f"without {_links(min_nvlinks)} to another"
    return f"{gpus_text(alone)}{each} alone, {what}:"


def _gpu_text(gpu: Gpu) -> str:
    numa = "NUMA ?" if gpu.numa_nodes is None else f"NUMA {ranges_text(ranges_of(gpu.numa_nodes))}"
    cpus = "" if gpu.cpus is None else f"  CPUs {ranges_text(gpu.cpus)}"
    nics = gpu.nearest_nics
    names = ", ".join(name for name, _ in nics)
    near = f"  NICs {names} ({nics[0][1]})" if nics else ""
    mig = "  MIG" if gpu.mig else ""
    return f"GPU{gpu.index:<3} {numa}{cpus}{near}{mig}"


def _matrix(topology: Topology, groups: tuple[Group, ...]) -> list[str]:
    names = [gpus_text(group.gpus) for group in groups]
    rows = [["", *names]]
    for group, name in zip(groups, names, strict=True):
        rows.append([name])
        for other in groups:
            same = group is other
            rows[-1].append("-" if same else str(farthest(topology, group.gpus, other.gpus)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _too_few_text(topology: Topology, min_nvlinks: int) -> Iterator[str]:
    weak = weak_pairs(topology, min_nvlinks)
    if not weak:
        yield f"no two GPUs have {_links(min_nvlinks)} between them"
        return
    yield f"{_count(len(weak), 'pair')} with fewer than {_count(min_nvlinks, 'NVLink')}:"
    yield from _pair_lines(topology, weak)


def _units_text(proposal: Proposal) -> str:
    units = ", ".join(gpus_text(unit) for unit in proposal.units)
    text = f"{_count(len(proposal.units), 'inference unit')} of degree {proposal.degree}: {units}"
    return f"{text}; {gpus_text(proposal.unused)} left over" if proposal.unused else text


def _no_text(
    topology: Topology, min_nvlinks: int, proposal: Proposal, instead: Proposal
) -> Iterator[str]:
    count = len(topology.gpus)
    missing = not_linked(topology, min_nvlinks)
    no = f"no inference unit of degree {proposal.degree}"
    if proposal.degree > count:
        yield f"{no}: there {'is' if count == 1 else 'are'} {_count(count, 'GPU')}"
    else:
        yield f"{no}: no {proposal.degree} GPUs have {_links(min_nvlinks)} between every two"
    if missing:
        few = "no NVLinks" if min_nvlinks == 1 else f"fewer than {min_nvlinks} NVLinks"
        yield f"{len(missing)} of {_count(len(topology.links), 'pair')} with {few}:"
        yield from _pair_lines(topology, missing)
    yield f"use instead: {_units_text(instead)}"


def _pair_lines(topology: Topology, which: Iterable[tuple[int, int]]) -> Iterator[str]:
    """GPU0 - GPU2-3 NODE, GPU4-7 SYS: each pair once, at its lower GPU."""
    rows: dict[int, dict[Link, list[int]]] = {}
    for one, other in which:
        rows.setdefault(one, {}).setdefault(topology.link(one, other), []).append(other)
    for one, by_link in rows.items():
        far = ", ".join(f"{gpus_text(others)} {link}" for link, others in by_link.items())
        yield f"  GPU{one} - {far}"


def _links(least: int) -> str:
    return "NVLinks" if least == 1 else f"{least} NVLinks or more"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
