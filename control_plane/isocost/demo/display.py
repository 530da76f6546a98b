"""The run as one sees it: a progress bar and a line per node, or plain lines without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from isocost.bench.replay import Replay
from isocost.demo.observer import NodeView

_PLAIN_INTERVAL_S = 5.0


class Display(Protocol):
    """Shows a run while it goes on; a context manager, because a terminal must be restored."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def update(self, elapsed_s: float, replay: Replay, nodes: Sequence[NodeView]) -> None: ...


def display_for(console: Console) -> Display:
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


class LiveDisplay:
    """Redraws in place, only when told to: a drawing thread would disturb the replay."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("replay"),
            BarColumn(bar_width=40),
            TextColumn("{task.completed}/{task.total} requests"),
            TextColumn("{task.fields[failed]} failed"),
            TimeElapsedColumn(),
            auto_refresh=False,
        )
        self._task = self._progress.add_task("replay", total=None, failed=0)
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

    def update(self, elapsed_s: float, replay: Replay, nodes: Sequence[NodeView]) -> None:  # noqa: ARG002
        self._progress.update(
            self._task, completed=replay.done, total=replay.total, failed=replay.failed
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

    def update(self, elapsed_s: float, replay: Replay, nodes: Sequence[NodeView]) -> None:
        if elapsed_s < self._next_s:
            return
        self._next_s += _PLAIN_INTERVAL_S
        shares = " ".join(f"{view.node.name}={percent(view.share)}" for view in nodes)
        self._console.print(
            f"{elapsed_s:4.0f} s  sent {replay.sent}/{replay.total}  done {replay.done}  "
            f"failed {replay.failed}  {shares}",
            soft_wrap=True,
            highlight=False,
        )


def _node_table(nodes: Sequence[NodeView]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("node", "rack", "gpu", "state"):
        table.add_column(title)
    for title in ("requests", "share", "weight", "in flight", "running", "waiting"):
        table.add_column(title, justify="right")
    for view in nodes:
        status = view.status
        table.add_row(
            view.node.name,
            view.node.rack,
            view.node.gpu_kind,
            status.state if status else "-",
            str(view.requests),
            percent(view.share),
            number(status.weight if status else None, 3),
            number(status.in_flight if status else None),
            number(status.running if status else None),
            number(status.waiting if status else None),
        )
    return table


def number(value: float | None, digits: int = 0) -> str:
    """A number for a table; a dash for unknown."""
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction * 100:.1f}%"
