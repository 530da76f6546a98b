"""A node's GPUs as the state of the fake NVML. Pure: what the library is told for given numbers.

The keys are those of docs/telemetry.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from isocost.fake.hardware import Hardware
from isocost.fake.telemetry import Reading

#: The keys of one GPU with their values.
State = dict[str, int | str]

#: NVML's "not supported", and its "unknown error", after which a value is not known for a while.
UNSUPPORTED, UNREADABLE = "!3", "!999"
_ERRORS = {"unsupported": UNSUPPORTED, "absent": UNREADABLE}
#: Of a card at rest and of one at its power limit, in degrees Celsius. Not measured: between a cool
#: room's and the throttling of these cards.
_REST_C, _LIMIT_C = 30, 80
#: What a card is, and not how it does.
_FIXED = ("name", "pci", "nvlinks")


def gpu_states(
    node: str, hardware: Hardware, signals: Mapping[str, Reading] | None, pid: int
) -> list[State]:
    """Each card of the node; ``signals`` None: no engine runs."""
    state = _idle(hardware) if signals is None else _serving(hardware, signals, pid)
    # One machine can have several nodes: their names differ, and so do the buses' domains.
    domain = zlib.crc32(node.encode())
    card = hardware.card
    return [
        {
            "name": card.name,
            "pci": f"{domain:08X}:{index + 1:02X}:00.0",
            "nvlinks": card.nvlink_links,
            **state,
        }
        for index in range(hardware.count)
    ]


def unreadable(state: State) -> State:
    """The same card, of which no number can be read."""
    links = [_active(link) for link in range(int(state["nvlinks"]))]
    return {
        **{key: value if key in _FIXED else UNREADABLE for key, value in state.items()},
        **dict.fromkeys(links, UNREADABLE),
    }


def state_text(uuids: Sequence[str], states: Sequence[State]) -> str:
    """The content of a state file. The library makes a GPU's UUID of its name."""
    names = [uuid.removeprefix("GPU-") for uuid in uuids]
    lines = [f"gpus={','.join(names)}"]
    for name, state in zip(names, states, strict=True):
        lines += [f"{name}.{key}={value}" for key, value in state.items()]
    return "\n".join(lines) + "\n"


def _idle(hardware: Hardware) -> State:
    """A card without a process."""
    card = hardware.card
    return {
        "memory_total": card.vram_total_bytes,
        "memory_reserved": card.reserved_bytes,
        "memory_used": 0,
        "utilization": 0,
        "memory_bandwidth": 0,
        "pcie_tx": 0,
        "pcie_rx": 0,
        "power": round(card.idle_w * 1e3),
        "temperature": _temperature(hardware, card.idle_w),
    }


def _serving(hardware: Hardware, signals: Mapping[str, Reading], pid: int) -> State:
    state = _idle(hardware) | _memory(hardware, signals, pid)
    utilisation = _whole(signals["gpu_utilisation"], 100)
    # Decoding reads the weights for as long as its kernels run.
    state |= {"utilization": utilisation, "memory_bandwidth": utilisation}
    kb_per_s = _whole(signals["pcie_bytes_per_s"], 1e-3)
    if isinstance(kb_per_s, int):
        state |= {"pcie_tx": kb_per_s // 2, "pcie_rx": kb_per_s - kb_per_s // 2}
    else:
        state |= {"pcie_tx": kb_per_s, "pcie_rx": kb_per_s}
    power_w = signals["power_w"]
    state["power"] = _whole(power_w, 1e3)
    if isinstance(power_w, int | float):
        state["temperature"] = _temperature(hardware, power_w)
    return state | _links(hardware, signals["nvlink_active_fraction"])


def _memory(hardware: Hardware, signals: Mapping[str, Reading], pid: int) -> State:
    card = hardware.card
    total, free = _whole(signals["vram_total_bytes"]), _whole(signals["vram_free_bytes"])
    total_bytes = total if isinstance(total, int) else card.vram_total_bytes
    free_bytes = min(free if isinstance(free, int) else hardware.vram_free_bytes, total_bytes)
    reserved_bytes = min(card.reserved_bytes, total_bytes - free_bytes)
    used_bytes = total_bytes - free_bytes - reserved_bytes
    return {
        "memory_total": total,
        "memory_reserved": reserved_bytes,
        "memory_used": used_bytes if isinstance(free, int) else free,
        "processes": f"{pid}:{used_bytes}",
    }


def _links(hardware: Hardware, fraction: Reading) -> State:
    """The state of those links that are not up."""
    links = hardware.card.nvlink_links
    up = _whole(fraction, links)
    if isinstance(up, int):
        return {_active(link): 0 for link in range(up, links)}
    return {_active(link): up for link in range(links)}


def _active(link: int) -> str:
    return f"nvlink.{link}.active"


def _temperature(hardware: Hardware, power_w: float) -> int:
    share = min(power_w / hardware.card.limit_w, 1.0)
    return round(_REST_C + share * (_LIMIT_C - _REST_C))


def _whole(reading: Reading, factor: float = 1) -> int | str:
    """A number in the library's unit, or the error that stands for its state."""
    if isinstance(reading, int | float):
        return round(reading * factor)
    return _ERRORS[str(reading)]
