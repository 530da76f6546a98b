"""What one VM of one Envoy reports: frozen types, free of the wire format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray


class PrefillSums(NamedTuple):
    """Over ``n`` first tokens: the node's pending tokens when the request was sent, its own
    included, and the time to the first token.
    """

    n: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0


NO_PREFILLS = PrefillSums()


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """One node as one VM saw it.

    ``in_flight`` and ``open_age_s_sum`` (sum of the open requests' ages) are the state at the time
    of the batch; everything else counts since the VM's previous batch. ``failed_attempts`` were
    listed before the node that answered; ``unknown_attempts`` failed on a node nobody can name.

    ``pending_tokens`` (of prompts without a first token, without what caches hold) and
    ``kv_tokens`` (of all open requests, their expected answers included) are state as well.
    """

    node_id: int
    in_flight: int = 0
    open_age_s_sum: float = 0.0
    started: int = 0
    succeeded: int = 0
    client_errors: int = 0
    rate_limited: int = 0
    server_errors: int = 0
    resets: int = 0
    client_aborts: int = 0
    failed_attempts: int = 0
    unknown_attempts: int = 0
    first_byte_count: int = 0
    first_byte_ms_sum: float = 0.0
    tpot_count: int = 0
    tpot_ms_sum: float = 0.0
    total_count: int = 0
    total_ms_sum: float = 0.0
    chunks: int = 0
    output_tokens: int = 0
    pending_tokens: int = 0
    kv_tokens: int = 0
    prefill: PrefillSums = NO_PREFILLS
    finish_stop: int = 0
    finish_length: int = 0
    finish_tool: int = 0
    finish_other: int = 0


_PREFILL = tuple(f"prefill.{name}" for name in PrefillSums._fields)
#: The numbers of a node that are its state, 0 unless requests are open on it, ...
OPEN = ("in_flight", "open_age_s_sum", "pending_tokens", "kv_tokens")
#: ... and those that are news.
NEWS = (
    *(
        field.name
        for field in fields(NodeObservation)
        if field.name not in ("node_id", "prefill", *OPEN)
    ),
    *_PREFILL,
)


class Columns:
    """Some numbers of m nodes, all of a number at once: of ``names`` [k] the ``numbers`` [m, k];
    ``ids`` [m] are the nodes' ids.
    """

    def __init__(
        self, names: tuple[str, ...], ids: NDArray[np.uint64], numbers: NDArray[np.float64]
    ) -> None:
        self.ids = ids
        self.numbers = numbers
        self._names = names

    def column(self, name: str) -> NDArray[np.float64]:
        """One of the numbers, [m]."""
        result: NDArray[np.float64] = self.numbers[:, self._names.index(name)]
        return result

    def columns(self, names: Iterable[str]) -> NDArray[np.float64]:
        """Some of the numbers side by side, [m, names]."""
        result: NDArray[np.float64] = self.numbers[:, [self._names.index(name) for name in names]]
        return result

    def by_node(self) -> dict[int, dict[str, float]]:
        return {
            node_id: dict(zip(self._names, numbers, strict=True))
            for node_id, numbers in zip(self.ids.tolist(), self.numbers.tolist(), strict=True)
        }

    def __len__(self) -> int:
        return len(self.ids)


class NodeTable(Sequence[NodeObservation]):
    """The nodes of a batch as columns: those that have requests ``open``, and those with ``news``.
    Most have only one of both.
    """

    def __init__(self, open_now: Columns, news: Columns) -> None:
        self.open = open_now
        self.news = news

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> NodeObservation: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeObservation]: ...
    def __getitem__(self, index: int | slice) -> NodeObservation | Sequence[NodeObservation]:
        return self._nodes[index]

    @cached_property
    def _nodes(self) -> Sequence[NodeObservation]:
        """One by one, as nobody wants them who is in a hurry."""
        state, news = self.open.by_node(), self.news.by_node()
        return [
            _node(node_id, state.get(node_id, {}) | news.get(node_id, {}))
            for node_id in sorted(state.keys() | news.keys())
        ]


def _node(node_id: int, numbers: dict[str, float]) -> NodeObservation:
    prefill = PrefillSums(*(numbers.pop(name, 0.0) for name in _PREFILL))
    return NodeObservation(node_id, prefill=prefill, **numbers)  # type: ignore[arg-type]


def node_table(nodes: Sequence[NodeObservation]) -> NodeTable:
    """The nodes as columns, in their order."""
    if isinstance(nodes, NodeTable):
        return nodes
    ids = np.array([node.node_id for node in nodes], dtype=np.uint64)
    return NodeTable(
        Columns(OPEN, ids, _numbers(OPEN, nodes)), Columns(NEWS, ids, _numbers(NEWS, nodes))
    )


def _numbers(names: tuple[str, ...], nodes: Sequence[NodeObservation]) -> NDArray[np.float64]:
    numbers = np.array([attrgetter(*names)(node) for node in nodes], dtype=np.float64)
    return numbers.reshape(-1, len(names))


@dataclass(frozen=True, slots=True)
class Placement:
    """Beginnings of prompts, by their hashes, that a node was seen to have answered."""

    node_id: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer. ``user_bucket`` is 1 + the user's hash mod 65,536; 0 = no user."""

    user_bucket: int
    model: str
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One report of one VM. ``incarnation`` names one life of it.

    ``stale_choices`` are requests whose list named a node that Envoy's cluster did not have any
    more; another one served them.
    """

    envoy: str
    incarnation: int
    sequence: int
    nodes: Sequence[NodeObservation]
    table_version: int = 0
    picked: int = 0
    fallback_no_table: int = 0
    fallback_stale_table: int = 0
    fallback_no_eligible: int = 0
    fallback_host_failure: int = 0
    stale_choices: int = 0
    placements: tuple[Placement, ...] = ()
    answers: tuple[Answer, ...] = ()
