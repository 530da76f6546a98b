"""How many packets the machine's InfiniBand ports lost, by the kernel's counters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: Packets that are no packets: damaged on the way in, or given up on the way out.
_LOST = ("port_rcv_errors", "port_xmit_discards")
_PACKETS = ("port_rcv_packets", "port_xmit_packets")
#: More than this part of the packets is bad: document A's 0.0001 %.
MAX_LOSS = 1e-6


@dataclass(frozen=True, slots=True)
class PortLoss:
    """Of one port since its counters were cleared; both counts may have ended at their limit."""

    device: str
    port: str
    lost: int
    packets: int

    @property
    def share(self) -> float:
        """Of all packets, those lost included; 0 where there were none."""
        return self.lost / max(self.packets + self.lost, 1)


def port_losses(sysfs: Path) -> list[PortLoss]:
    """Every port that counts, by name; one that does not tell is left out."""
    found = []
    for folder in sorted((sysfs / "class" / "infiniband").glob("*/ports/*/counters")):
        lost = [_count(folder / name) for name in _LOST]
        packets = [_count(folder / name) for name in _PACKETS]
        if None in lost or None in packets:
            continue
        port = folder.parent
        counts = sum(filter(None, lost)), sum(filter(None, packets))
        found.append(PortLoss(port.parents[1].name, port.name, *counts))
    return found


def _count(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
