"""What `isocost topology` says of InfiniBand ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isocost.telemetry.topology.ib_loss import PortLoss


def ib_text(losses: Sequence[PortLoss], lossy: Sequence[PortLoss], most: float) -> Iterator[str]:
    """Nothing where there are no ports."""
    if not losses:
        return
    yield ""
    ports = f"{len(losses)} InfiniBand port{'s' if len(losses) > 1 else ''}"
    if not lossy:
        yield f"{ports}: none lost more than {most * 100:g} % of its packets"
        return
    yield f"{ports}, of which {len(lossy)} lost more than {most * 100:g} % of the packets:"
    for loss in lossy:
        yield (
            f"  {loss.device} port {loss.port}: {loss.lost:,} of {loss.packets:,}, "
            f"{loss.share * 100:.3g} %"
        )


def ib_json(losses: Sequence[PortLoss], most: float) -> list[dict[str, object]]:
    return [
        {
            "device": loss.device,
            "port": loss.port,
            "lost": loss.lost,
            "packets": loss.packets,
            "share": loss.share,
            "ok": loss.share <= most,
        }
        for loss in losses
    ]
