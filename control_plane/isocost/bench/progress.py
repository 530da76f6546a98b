"""The run as one sees it: a progress bar and a line per node, or plain lines without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from isocost.bench.control_plane import NodeStatus
from isocost.bench.replay import Replay

_PLAIN_INTERVAL_S = 5.0
#: A larger fleet's lines would scroll out of the terminal, and fill a log.
_MAX_NODES = 32


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a run is, in requests."""

    total: int
    sent: int
    done: int
    failed: int
    rejected: int = 0

    @classmethod
    def of(cls, *replays: Replay) -> Counts:
        return cls(
            total=sum(replay.total for replay in replays),
            sent=sum(replay.sent for replay in replays),
            done=sum(replay.done for replay in replays),
            failed=sum(replay.failed for replay in replays),
            rejected=sum(replay.rejected for replay in replays),
        )


@dataclass(frozen=True, slots=True)
class NodeView:
    """One line of the display; None = not known at the moment."""

    name: str
    requests: int
    share: float | None
    status: NodeStatus | None
    rack: str | None = None
    gpu_kind: str | None = None


class Display(Protocol):
    """Shows a run while it goes on; a context manager, because a terminal must be restored."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def update(
        self, elapsed_s: float, counts: Counts, nodes: Sequence[NodeView], turn: str = ""
    ) -> None:
        """``turn`` says what is measured at the moment, where that changes."""


def display_for(console: Console) -> Display:
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


class LiveDisplay:
    """Redraws in place, only when told to: a drawing thread would disturb the replay."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=40),
            TextColumn("{task.completed}/{task.total} requests"),
            TextColumn("{task.fields[failed]} failed"),
            TextColumn("{task.fields[rejected]} rejected"),
            TimeElapsedColumn(),
            auto_refresh=False,
        )
        self._task = self._progress.add_task("replay", total=None, failed=0, rejected=0)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def update(
        self,
        elapsed_s: float,  # noqa: ARG002  the bar has its own clock
        counts: Counts,
        nodes: Sequence[NodeView],
        turn: str = "",
    ) -> None:
        self._progress.update(
            self._task,
            description=turn or "replay",
            completed=counts.done,
            total=counts.total,
            failed=counts.failed,
            rejected=counts.rejected,
        )
        self._live.update(Group(self._progress, _node_table(nodes)), refresh=True)


class PlainDisplay:
    """One line every few seconds, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = _PLAIN_INTERVAL_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def update(
        self, elapsed_s: float, counts: Counts, nodes: Sequence[NodeView], turn: str = ""
    ) -> None:
        if elapsed_s < self._next_s:
            return
        self._next_s += _PLAIN_INTERVAL_S
        shares = [f"{view.name}={percent(view.share)}" for view in nodes[:_MAX_NODES]]
        if len(nodes) > _MAX_NODES:
            shares.append(f"and {len(nodes) - _MAX_NODES} more")
        parts = (
            f"{elapsed_s:4.0f} s",
            turn,
            f"sent {counts.sent}/{counts.total}",
            f"done {counts.done}",
            f"failed {counts.failed}",
            f"rejected {counts.rejected}" if counts.rejected else "",
            " ".join(shares),
        )
        self._console.print("  ".join(filter(None, parts)), soft_wrap=True, highlight=False)


def _node_table(nodes: Sequence[NodeView]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("node", "rack", "gpu", "state"):
        table.add_column(title)
    for title in ("requests", "share", "weight", "in flight", "running", "waiting"):
        table.add_column(title, justify="right")
    for view in nodes[:_MAX_NODES]:
        status = view.status
        table.add_row(
            view.name,
            view.rack or "-",
            view.gpu_kind or "-",
            status.state if status else "-",
            str(view.requests),
            percent(view.share),
            number(status.weight if status else None, 3),
            number(status.in_flight if status else None),
            number(status.running if status else None),
            number(status.waiting if status else None),
        )
    if len(nodes) > _MAX_NODES:
        table.add_row(f"and {len(nodes) - _MAX_NODES} more")
    return table


def number(value: float | None, digits: int = 0) -> str:
    """A number for a table; a dash for unknown."""
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction * 100:.1f}%"
