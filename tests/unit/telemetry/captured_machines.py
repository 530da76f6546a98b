"""What nvidia-smi and the kernel said of real machines, as the state of the fake NVML.

A key that a capture does not tell is not set; one of which it says N/A is NVML's "not supported".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

DATA = Path(__file__).parents[2] / "data"

MIB = 1 << 20
NOT_SUPPORTED = "!3"

#: What nvidia-smi says of one GPU, by its headings: "PCI/Tx Throughput". MIG devices and processes
#: have a number in their heading.
Said = dict[str, str]
State = dict[str, object]


class _Where(NamedTuple):
    """Where `-q`, `-q -x` and `--query-gpu` tell it; NVML's unit is that many of theirs."""

    q: str
    xml: str
    csv: str = ""
    unit: int = 1


_LINK_Q = "PCI/GPU Link Info"
_LINK_XML = "pci/pci_gpu_link_info"
_ROWS_XML = "remapped_rows/remapped_row"
_NUMBERS = {
    "memory_total": _Where(
        "FB Memory Usage/Total", "fb_memory_usage/total", "memory.total [MiB]", MIB
    ),
    "memory_used": _Where("FB Memory Usage/Used", "fb_memory_usage/used", "memory.used [MiB]", MIB),
    "memory_reserved": _Where(
        "FB Memory Usage/Reserved", "fb_memory_usage/reserved", "memory.reserved [MiB]", MIB
    ),
    "utilization": _Where("Utilization/GPU", "utilization/gpu_util", "utilization.gpu [%]"),
    "memory_bandwidth": _Where(
        "Utilization/Memory", "utilization/memory_util", "utilization.memory [%]"
    ),
    "pcie_tx": _Where("PCI/Tx Throughput", "pci/tx_util"),
    "pcie_rx": _Where("PCI/Rx Throughput", "pci/rx_util"),
    "pcie_replays": _Where("PCI/Replays Since Reset", "pci/replay_counter"),
    "pcie_generation": _Where(
        f"{_LINK_Q}/PCIe Generation/Current",
        f"{_LINK_XML}/pcie_gen/current_link_gen",
        "pcie.link.gen.current",
    ),
    "pcie_generation_max": _Where(
        f"{_LINK_Q}/PCIe Generation/Max",
        f"{_LINK_XML}/pcie_gen/max_link_gen",
        "pcie.link.gen.max",
    ),
    "pcie_width": _Where(
        f"{_LINK_Q}/Link Width/Current",
        f"{_LINK_XML}/link_widths/current_link_width",
        "pcie.link.width.current",
    ),
    "pcie_width_max": _Where(
        f"{_LINK_Q}/Link Width/Max",
        f"{_LINK_XML}/link_widths/max_link_width",
        "pcie.link.width.max",
    ),
    "temperature": _Where(
        "Temperature/GPU Current Temp", "temperature/gpu_temp", "temperature.gpu"
    ),
    "power": _Where(
        "GPU Power Readings/Power Draw", "power_readings/power_draw", "power.draw [W]", 1000
    ),
    "rows_corrected": _Where(
        "Remapped Rows/Correctable Error", f"{_ROWS_XML}_corr", "remapped_rows.correctable"
    ),
    "rows_uncorrected": _Where(
        "Remapped Rows/Uncorrectable Error", f"{_ROWS_XML}_unc", "remapped_rows.uncorrectable"
    ),
    "rows_pending": _Where(
        "Remapped Rows/Pending", f"{_ROWS_XML}_pending", "remapped_rows.pending"
    ),
    "rows_failed": _Where(
        "Remapped Rows/Remapping Failure Occurred", f"{_ROWS_XML}_failure", "remapped_rows.failure"
    ),
}
#: The same thing under another version's name.
_RENAMED = {
    "Utilization/Gpu": "Utilization/GPU",
    "GPU Power Readings/Average Power Draw": "GPU Power Readings/Power Draw",
    "gpu_power_readings/power_draw": "power_readings/power_draw",
}
_ECC = {
    "ecc_corrected": ("volatile", "corrected"),
    "ecc_uncorrected": ("volatile", "uncorrected"),
    "ecc_corrected_ever": ("aggregate", "corrected"),
    "ecc_uncorrected_ever": ("aggregate", "uncorrected"),
}
#: NVML's bits (nvmlClocksEventReason...), by the last word of `-q` and of `-q -x`.
_REASONS = {
    ("Idle", "gpu_idle"): 0x1,
    ("Applications Clocks Setting", "applications_clocks_setting"): 0x2,
    ("SW Power Cap", "sw_power_cap"): 0x4,
    ("HW Slowdown", "hw_slowdown"): 0x8,
    ("Sync Boost", "sync_boost"): 0x10,
    ("SW Thermal Slowdown", "sw_thermal_slowdown"): 0x20,
    ("HW Thermal Slowdown", "hw_thermal_slowdown"): 0x40,
    ("HW Power Brake Slowdown", "hw_power_brake_slowdown"): 0x80,
    ("Display Clock Setting", "display_clocks_setting"): 0x100,
}
_SLICE = re.compile(r"(.*(?:MIG Device|mig_device) [0-9]+)/(?:GPU Instance ID|gpu_instance_id)")
_PROCESS = re.compile(r"(.*(?:Processes|process_info) [0-9]+/)(?:Process ID|pid)")


def said_by_q(file: str) -> list[Said]:
    """`nvidia-smi -q`, GPU by GPU."""
    machine: list[Said] = []
    open_: list[tuple[int, str]] = []
    for line in (DATA / file).read_text().splitlines():
        if re.match(r"GPU [0-9A-F]{8}:", line):
            machine.append({"Bus Id": line.removeprefix("GPU ")})
            continue
        match = re.match(r"( +)(\S.*?) *(?:: (.*))?$", line)
        if match is None or not machine:
            continue
        said, depth, heading = machine[-1], len(match[1]), match[2]
        while open_ and open_[-1][0] >= depth:
            open_.pop()
        # Each process begins with this line, and has those under it as its own.
        if open_ and open_[-1][1].startswith("Processes") and heading == "GPU instance ID":
            said["count"] = str(int(said.get("count", "0")) + 1)
            open_[-1] = (open_[-1][0], f"Processes {said['count']}")
        if heading == "MIG Device":
            heading += f" {sum(key.endswith('/Index') for key in said) + 1}"
        path = "/".join([*(name for _, name in open_), heading])
        if match[3] is not None:
            said[_RENAMED.get(path, path)] = match[3].strip()
        # What is under it belongs to the process, as what is above it does.
        if heading != "Process ID":
            open_.append((depth, heading))
    return machine


def said_by_xml(file: str) -> list[Said]:
    """`nvidia-smi -q -x`, GPU by GPU."""
    return [dict(_leaves(gpu)) for gpu in ElementTree.parse(DATA / file).iter("gpu")]


def _leaves(element: ElementTree.Element, path: str = "") -> Iterator[tuple[str, str]]:
    for number, child in enumerate(element, start=1):
        name = f"{child.tag} {number}" if child.tag in {"mig_device", "process_info"} else child.tag
        here = f"{path}{name}"
        if len(child) == 0 and child.text is not None:
            yield _RENAMED.get(here, here), child.text.strip()
        yield from _leaves(child, f"{here}/")


def said_by_csv(file: str) -> list[Said]:
    """`nvidia-smi --query-gpu` or another query, row by row."""
    with (DATA / file).open(newline="") as opened:
        return list(csv.DictReader(opened, skipinitialspace=True))


def machine_state(machine: Iterable[Said]) -> State:
    """GPUs g0, g1, ..."""
    state: State = {}
    names = []
    for index, said in enumerate(machine):
        names.append(f"g{index}")
        state |= {f"g{index}.{key}": value for key, value in _gpu_state(said).items()}
    return {"gpus": ",".join(names), **state}


def _gpu_state(said: Said) -> State:
    state: State = {
        "name": _first(said, "Product Name", "product_name", "name"),
        "uuid": _first(said, "GPU UUID", "uuid"),
        "pci": _first(said, "Bus Id", "pci/pci_bus_id", "pci.bus_id"),
        "pcie_ms": 0,
    }
    for key, where in _NUMBERS.items():
        # A heading that is N/A as a whole has nothing under it.
        wholes = (name.partition("/")[0] for name in (where.q, where.xml))
        if value := _first(said, where.q, where.xml, where.csv, *wholes):
            state[key] = _number(value, where.unit)
    for key, (counted, kind) in _ECC.items():
        state |= _ecc(said, key, counted, kind)
    if (reasons := _reasons(said)) is not None:
        state["clocks_event_reasons"] = reasons
    return state | _mig(said) | _processes(said)


def _ecc(said: Said, key: str, counted: str, kind: str) -> State:
    total = said.get(f"ecc.errors.{kind}.{counted}.total")
    # `-q` writes "SRAM Uncorrectable Parity", `-q -x` "sram_uncorrectable".
    of_kind = re.compile(
        rf"(?i)ecc.errors/{counted}/[sd]ram.{kind.replace('corrected', 'correctable')}.*"
    )
    parts = [value for name, value in said.items() if of_kind.fullmatch(name)]
    values = [_number(value, 1) for value in ([total] if total is not None else parts)]
    if not values:
        return {}
    known = [value for value in values if isinstance(value, int)]
    return {key: sum(known) if len(known) == len(values) else NOT_SUPPORTED}


def _reasons(said: Said) -> int | None:
    if "clocks_event_reasons.active" in said:
        return int(said["clocks_event_reasons.active"], 16)
    mask, found = 0, False
    for name, value in said.items():
        for (of_q, of_xml), bit in _REASONS.items():
            of_gpu = re.fullmatch(
                rf"Clocks Event Reasons/(?:HW Slowdown/)?{of_q}"
                rf"|clocks_(?:event|throttle)_reasons/clocks_(?:event|throttle)_reason_{of_xml}",
                name,
            )
            if of_gpu:
                found = True
                mask |= bit if value == "Active" else 0
    return mask if found else None


def _mig(said: Said) -> State:
    mode = _first(said, "MIG Mode/Current", "mig_mode/current_mig", "mig.mode.current")
    if mode in {"N/A", "[N/A]"}:
        return {"mig": NOT_SUPPORTED}
    slices: State = {}
    instances = []
    for name, value in said.items():
        match = _SLICE.fullmatch(name)
        if match is None:
            continue
        instances.append(value)
        for key in ("total", "used", "reserved"):
            of_slice = _first(
                said,
                f"{match[1]}/Shared FB Memory Usage/{key.capitalize()}",
                f"{match[1]}/fb_memory_usage/{key}",
            )
            slices[f"{value}.memory_{key}"] = _number(of_slice, MIB)
        slices[f"{value}.processes"] = _process_list(said, value)
    if mode == "Enabled" and not instances:
        return {}  # A query of whole GPUs: which slices there are it does not tell.
    return {"mig": ",".join(instances), **slices}


def _processes(said: Said) -> State:
    told = any(name.startswith(("Processes", "processes")) for name in said)
    return {"processes": _process_list(said, None)} if told else {}


def _process_list(said: Said, instance: str | None) -> str:
    """Those that compute; with ``instance`` only those of that GPU instance."""
    found = []
    for name, value in said.items():
        match = re.fullmatch(
            r"(Processes [0-9]+/)Process ID|(processes/process_info [0-9]+/)pid", name
        )
        if match is None:
            continue
        here = match[1] or match[2]
        of_process = (
            _first(said, f"{here}GPU instance ID", f"{here}gpu_instance_id"),
            _first(said, f"{here}Type", f"{here}type"),
            _first(said, f"{here}Used GPU Memory", f"{here}used_memory"),
        )
        if "C" in of_process[1] and instance in {None, of_process[0]}:
            used = _number(of_process[2], MIB)
            found.append(f"{value}:{used if isinstance(used, int) else -1}")
    return ",".join(found)


def _first(said: Said, *names: str) -> str:
    return next((said[name] for name in names if name in said), "")


def _number(text: str, unit: int) -> object:
    """81559 MiB, 16x, 69.85 W; Yes and No are 1 and 0."""
    if text.strip("[]") in {"N/A", "None"}:
        return NOT_SUPPORTED
    if text in {"Yes", "No"}:
        return int(text == "Yes")
    match = re.match(r"[0-9.]+", text)
    assert match, text
    return round(float(match[0]) * unit)


def nvlink_state(file: str) -> State:
    """`nvidia-smi nvlink --status`: by GPU, how many links there are, and which are down."""
    state: State = {}
    index = -1
    for line in (DATA / file).read_text().splitlines():
        if match := re.match(r"GPU ([0-9]+): (.*) \(UUID: (.*)\)", line):
            index = int(match[1])
            state |= {f"g{index}.name": match[2], f"g{index}.uuid": match[3]}
            state[f"g{index}.nvlinks"] = 0
        elif match := re.match(r"\s+Link ([0-9]+): (.*)", line):
            state[f"g{index}.nvlinks"] = int(match[1]) + 1
            state[f"g{index}.nvlink.{match[1]}.active"] = int("GB/s" in match[2])
        else:
            # A sentence that says that there is none, or no answer in this mode.
            state[f"g{index}.nvlinks"] = NOT_SUPPORTED
    return state


def slice_uuids(file: str) -> list[str]:
    """`nvidia-smi -L`: the UUIDs of MIG slices."""
    return re.findall(r"MIG .*\(UUID: (MIG-.*)\)", (DATA / file).read_text())


def xids(file: str) -> list[tuple[str, int]]:
    """The kernel's log: (bus id, Xid) of each."""
    found = re.findall(r"NVRM: Xid \(PCI:([0-9a-f:]+)\): ([0-9]+),", (DATA / file).read_text())
    return [(f"0000{bus.upper()}.0", int(xid)) for bus, xid in found]
