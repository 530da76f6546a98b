"""The Xids of the last minutes, kept so that a report can tell them again and again."""

from __future__ import annotations

from isocost.model import Xid

KEPT_S = 600.0
#: Different Xids of one GPU; there are some hundred numbers, and a GPU in trouble shows a few.
MAX_XIDS = 32


class RecentXids:
    """By GPU; an Xid is forgotten KEPT_S after it came last, and counted from anew."""

    def __init__(self) -> None:
        self._xids: dict[str, dict[int, Xid]] = {}

    def hear(self, uuid: str, xid: int, at_s: float) -> None:
        kept = {known.number: known for known in self.of(uuid, at_s)}
        before = kept.pop(xid, None)
        kept[xid] = Xid(xid, 1 if before is None else before.count + 1, at_s)
        # The one that came last is the last.
        self._xids[uuid] = dict(list(kept.items())[-MAX_XIDS:])

    def of(self, uuid: str, now_s: float) -> tuple[Xid, ...]:
        """In the order in which they came last."""
        known = self._xids.get(uuid, {}).values()
        return tuple(xid for xid in known if now_s - xid.last_s < KEPT_S)
