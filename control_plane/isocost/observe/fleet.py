"""Everything the gateways observed, as one view per tick."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import Batch, node_table
from isocost.observe.history import History
from isocost.observe.inflight import InFlight
from isocost.observe.latency import LastMeans, Latency
from isocost.observe.placements import Placements
from isocost.observe.rows import Ids, RowNumbers, Rows
from isocost.observe.shares import VmShares
from isocost.observe.speeds import SpeedLearner, Speeds, TickTimes
from isocost.observe.window import SlidingSums, grown
from isocost.observe.workers import WorkerCount, Workers

#: The outcome counters of a node, in the order of ``NodeObservation``.
OUTCOMES = (
    "started",
    "succeeded",
    "client_errors",
    "rate_limited",
    "server_errors",
    "resets",
    "client_aborts",
    "failed_attempts",
    "unknown_attempts",
)
#: Nodes of which none is observed in parts.
NO_PARENTS: Mapping[int, int] = MappingProxyType({})

Number = TypeVar("Number", np.int64, np.float64)

_LATENCIES = ("tpot_ms_sum", "tpot_count", "first_byte_ms_sum", "first_byte_count")
#: Tokens of answers are added up in 64 bits; no batch can tell of more than this.
_MOST_TOKENS = 2.0**40


def _columns(*names: str) -> list[int]:
    return [OUTCOMES.index(name) for name in names]


_STARTED = OUTCOMES.index("started")
_RATE_LIMITED = OUTCOMES.index("rate_limited")
#: A request that the client got wrong was answered: the node works.
_GOOD = _columns("succeeded", "client_errors")
_FAILED = _columns("server_errors", "resets", "failed_attempts")
#: A node that ends a request in any way is alive. A reset and an abort are not its doing.
_ENDED = _columns("succeeded", "client_errors", "rate_limited", "server_errors")


@dataclass
class Decisions:
    """How the filters decided since the start of this process."""

    picked: int = 0
    fallback_no_table: int = 0
    fallback_stale_table: int = 0
    fallback_no_eligible: int = 0
    fallback_host_failure: int = 0


@dataclass
class Answers:
    """Why answers ended, of those that said so, since the start of this process."""

    stop: int = 0
    length: int = 0
    tool: int = 0
    other: int = 0


@dataclass(frozen=True)
class Tally:
    """Requests of n nodes, each [n]: started, answered well, failed, told to come later (429)."""

    started: NDArray[np.float64]
    good: NDArray[np.float64]
    failed: NDArray[np.float64]
    rate_limited: NDArray[np.float64]


@dataclass(frozen=True)
class SeenVm:
    """What of one VM is in a view: its last batch that counts, and its share of the fleet's
    requests, 0 = not known.
    """

    incarnation: int
    sequence: int
    share: float


@dataclass(frozen=True)
class Observed:
    """The gateways' view of n nodes, each array [n].

    ``in_flight`` is what the Envoys that speak have open, and all there is where
    ``in_flight_known``; ``open_age_s_sum`` is the sum of those requests' ages, ``pending_tokens``
    of their prompts' tokens that have no answer yet, ``kv_tokens`` of all their tokens with the
    expected answers'. ``recent`` is over
    the evidence window, ``total`` since the node was first seen; so is ``ended``, the requests that
    the node ended itself. ``failed_in_a_row`` counts the failures since its last good answer, the
    last of them at ``last_failed_s``. ``output_tokens`` are those of its answers since then.
    ``times`` are of this tick alone.
    """

    in_flight: NDArray[np.int64]
    in_flight_known: NDArray[np.bool_]
    open_age_s_sum: NDArray[np.float64]
    pending_tokens: NDArray[np.int64]
    kv_tokens: NDArray[np.int64]
    tpot: Latency
    first_byte: Latency
    recent: Tally
    total: Tally
    ended: NDArray[np.float64]
    failed_in_a_row: NDArray[np.int64]
    last_failed_s: NDArray[np.float64]
    output_tokens: NDArray[np.int64]
    times: TickTimes


class FleetObserver:
    """Takes batches from every VM of every Envoy and answers what is true of each node."""

    def __init__(self, latency_window_s: float, evidence_window_s: float) -> None:
        self._in_flight = InFlight()
        self._workers = Workers()
        self._shares = VmShares()
        #: By Envoy, as of the last tick.
        self.envoy_shares: Mapping[str, float] = {}
        self._speeds = SpeedLearner()
        self._rows = RowNumbers()
        #: By the id of a part of a node the node's, and the same of the parts that it had and where
        #: requests are still open.
        self._parents: Mapping[int, int] = {}
        self._former_parts: Mapping[int, int] = {}
        self._latencies = SlidingSums(latency_window_s, len(_LATENCIES))
        self._tpot, self._first_byte = LastMeans(), LastMeans()
        self._recent = SlidingSums(evidence_window_s, len(OUTCOMES))
        self._total = np.zeros((0, len(OUTCOMES)), dtype=np.int64)
        self._in_a_row = np.zeros(0, dtype=np.int64)
        self._last_failed_s = np.zeros(0)
        self._output_tokens = np.zeros(0, dtype=np.int64)
        self.decisions = Decisions()
        self.answers = Answers()
        #: Since the start of this process.
        self.stale_choices = 0
        self.output_tokens = 0
        self.placements = Placements()
        self.history = History()

    def configure(self, latency_window_s: float, evidence_window_s: float) -> None:
        """Other windows from now on; nothing in them is lost."""
        self._latencies.configure(latency_window_s)
        self._recent.configure(evidence_window_s)

    def apply(self, batch: Batch, now_s: float) -> None:
        """Count a batch; one that arrives twice or late counts once."""
        if not self._in_flight.apply(batch, now_s):
            return
        for kind in fields(Decisions):
            total = getattr(self.decisions, kind.name) + getattr(batch, kind.name)
            setattr(self.decisions, kind.name, total)
        self.stale_choices += batch.stale_choices
        self._shares.add(batch, now_s)
        self.placements.add(batch.placements)
        self.history.add(batch.answers)
        news = node_table(batch.nodes).news
        if not len(news):
            return
        self.answers.stop += int(news.column("finish_stop").sum())
        self.answers.length += int(news.column("finish_length").sum())
        self.answers.tool += int(news.column("finish_tool").sum())
        self.answers.other += int(news.column("finish_other").sum())
        tokens = np.minimum(news.column("output_tokens"), _MOST_TOKENS).astype(np.int64)
        self.output_tokens += int(tokens.sum())
        places, rows = self._with_parents(news.ids)
        counted = news.columns(OUTCOMES)[places]
        outcomes = counted.astype(np.int64)
        self._latencies.add(rows, news.columns(_LATENCIES)[places], now_s)
        self._recent.add(rows, counted, now_s)
        self._speeds.add(rows[: len(news)], news)
        np.add.at(self._total, rows, outcomes)
        failed = outcomes[:, _FAILED].sum(axis=1)
        # Of failures and good answers in one batch nobody knows which came last.
        good = outcomes[:, _GOOD].any(axis=1)
        np.add.at(self._in_a_row, rows, failed)
        self._in_a_row[rows[good]] = 0
        self._last_failed_s[rows[failed > 0]] = now_s
        np.add.at(self._output_tokens, rows, tokens[places])

    def apply_workers(self, envoy: str, count: WorkerCount, now_s: float) -> None:
        """Take an Envoy's word on its workers."""
        self._workers.apply(envoy, count, now_s)

    def view(self, node_ids: Sequence[int], now_s: float) -> Observed:
        """The state at ``now_s``, in the order of ``node_ids``; once per tick."""
        self._in_flight.expire(now_s)
        self._workers.expire(now_s)
        rows = self._rows_of(node_ids)
        latencies = self._latencies.totals(now_s)
        total = self._total[rows].astype(np.float64)
        return Observed(
            *self._open_on(node_ids, now_s),
            tpot=self._tpot.update(latencies[:, 0], latencies[:, 1], now_s).of(rows),
            first_byte=self._first_byte.update(latencies[:, 2], latencies[:, 3], now_s).of(rows),
            recent=_tally(self._recent.totals(now_s)[rows]),
            total=_tally(total),
            ended=total[:, _ENDED].sum(axis=1),
            failed_in_a_row=self._in_a_row[rows],
            last_failed_s=self._last_failed_s[rows],
            output_tokens=self._output_tokens[rows],
            times=self._speeds.take(rows),
        )

    def seen(self, now_s: float) -> tuple[SeenVm, ...]:
        """The live VMs, as of the last view; once per tick."""
        live = self._in_flight.live()
        shares = self._shares.of(live.keys(), now_s)
        by_envoy: dict[str, float] = defaultdict(float)
        for (envoy, _), share in shares.items():
            by_envoy[envoy] += share
        self.envoy_shares = by_envoy
        return tuple(SeenVm(vm[1], sequence, shares[vm]) for vm, sequence in live.items())

    def speeds(
        self,
        node_ids: Sequence[int],
        pools: NDArray[np.intp],
        now_s: float,
        late: NDArray[np.bool_] | None = None,
    ) -> Speeds:
        """How fast the nodes are, in the order of ``node_ids``; once per tick. ``pools`` [n]: nodes
        that should be alike have the same number; ``late`` [n]: a slow network, not a slow node.
        """
        return self._speeds.update(self._rows_of(node_ids), pools, now_s, late)

    def outcomes(self, node_id: int) -> dict[str, int]:
        """Outcome counts of a node since it was first seen."""
        row = self._rows.get(node_id)
        counts = [0] * len(OUTCOMES) if row is None else self._total[row].tolist()
        return dict(zip(OUTCOMES, counts, strict=True))

    def envoys(self) -> dict[str, WorkerCount | None]:
        """The Envoys that report, and their workers; None = an Envoy does not say."""
        counts = self._workers.counts()
        return {
            envoy: counts.get(envoy) for envoy in sorted(self._in_flight.envoys() | counts.keys())
        }

    def keep(self, node_ids: Sequence[int], parents: Mapping[int, int] = NO_PARENTS) -> None:
        """Forget the nodes that left the roster. ``parents``: by the id of a part of a node, which
        is observed for itself, the id of the whole, for which what the part answers counts too.
        """
        nodes = frozenset(node_ids)
        self._former_parts = {
            part: node
            for part, node in self._parents.items()
            if part not in parents and node in nodes and self._in_flight.any_open(part)
        }
        self._parents = {**self._former_parts, **parents}
        node_ids = (*node_ids, *self._parents)
        rows = self._rows_of(node_ids)
        self._latencies.keep(rows)
        self._tpot.keep(rows)
        self._first_byte.keep(rows)
        self._recent.keep(rows)
        self._speeds.keep(rows)
        self._total = self._total[rows]
        self._in_a_row = self._in_a_row[rows]
        self._last_failed_s = self._last_failed_s[rows]
        self._output_tokens = self._output_tokens[rows]
        self._rows.keep(node_ids)
        self._in_flight.keep(node_ids)

    def _open_on(
        self, node_ids: Sequence[int], now_s: float
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.bool_],
        NDArray[np.float64],
        NDArray[np.int64],
        NDArray[np.int64],
    ]:
        """Open requests [n], whether they are all, their ages, pending tokens and KV tokens."""
        in_flight, open_age_s_sum = self._in_flight.totals(node_ids, now_s)
        pending_tokens, kv_tokens = self._in_flight.work(node_ids)
        known = self._in_flight.known(node_ids)
        place = {node_id: n for n, node_id in enumerate(node_ids)} if self._former_parts else {}
        parts = {part: place[node] for part, node in self._former_parts.items() if node in place}
        if parts:
            ids, at = tuple(parts), np.array(list(parts.values()), dtype=np.intp)
            count, ages_s = self._in_flight.totals(ids, now_s)
            pending, kv = self._in_flight.work(ids)
            np.add.at(in_flight, at, count)
            np.add.at(open_age_s_sum, at, ages_s)
            np.add.at(pending_tokens, at, pending)
            np.add.at(kv_tokens, at, kv)
            np.logical_and.at(known, at, self._in_flight.known(ids))
        return in_flight, known, open_age_s_sum, pending_tokens, kv_tokens

    def _with_parents(self, ids: Ids) -> tuple[NDArray[np.intp], Rows]:
        """The places of a batch's nodes with their rows, then of those that are parts of a node,
        with the node's.
        """
        places, rows = np.arange(len(ids)), self._grown(self._rows.of_array(ids))
        if not self._parents:
            return places, rows
        found = [self._parents.get(node_id) for node_id in ids.tolist()]
        parts = [place for place, whole in enumerate(found) if whole is not None]
        wholes = self._rows_of([whole for whole in found if whole is not None])
        return np.concatenate((places, np.array(parts, dtype=np.intp))), np.append(rows, wholes)

    def _rows_of(self, node_ids: Sequence[int]) -> Rows:
        """The nodes' rows; new ones for nodes that are new."""
        return self._grown(self._rows.of(node_ids))

    def _grown(self, rows: Rows) -> Rows:
        """The rows that were asked for, once all arrays have them."""
        known = len(self._rows)
        if known > len(self._in_a_row):
            self._latencies.grow(known)
            self._recent.grow(known)
            self._speeds.grow(known)
            self._tpot.grow(known)
            self._first_byte.grow(known)
            self._total = grown(self._total, known)
            self._in_a_row = grown(self._in_a_row, known)
            self._last_failed_s = grown(self._last_failed_s, known)
            self._output_tokens = grown(self._output_tokens, known)
        return rows


def with_parts(
    nodes: Observed, parts: Observed, node_of: NDArray[np.intp], whole: NDArray[np.bool_]
) -> Observed:
    """The view of n nodes with what is open on their m parts, and the parts' times; ``node_of``
    [m]: each part's node, ``whole`` [m]: the part is all of it. What is open on a node itself began
    before it had parts.
    """
    count = len(nodes.in_flight)

    def summed(values: NDArray[Number]) -> NDArray[Number]:
        result = np.zeros(count, dtype=values.dtype)
        np.add.at(result, node_of, values)
        return result

    def added(own: NDArray[Number], of_parts: NDArray[Number]) -> NDArray[Number]:
        return own + summed(np.where(whole, 0, of_parts).astype(of_parts.dtype))

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of those that are known; NaN without any."""
        there = ~np.isnan(values)
        total, parts_there = summed(np.where(there, values, 0.0)), summed(there.astype(np.float64))
        nothing = np.full(count, np.nan)
        result: NDArray[np.float64] = np.divide(
            total, parts_there, out=nothing, where=parts_there > 0.0
        )
        return result

    known = nodes.in_flight_known.copy()
    np.logical_and.at(known, node_of, parts.in_flight_known)
    return replace(
        nodes,
        in_flight=added(nodes.in_flight, parts.in_flight),
        in_flight_known=known,
        open_age_s_sum=added(nodes.open_age_s_sum, parts.open_age_s_sum),
        pending_tokens=added(nodes.pending_tokens, parts.pending_tokens),
        kv_tokens=added(nodes.kv_tokens, parts.kv_tokens),
        times=TickTimes(mean(parts.times.extra_s), mean(parts.times.output_token_s)),
    )


def _tally(counts: NDArray[np.float64]) -> Tally:
    return Tally(
        started=counts[:, _STARTED],
        good=counts[:, _GOOD].sum(axis=1),
        failed=counts[:, _FAILED].sum(axis=1),
        rate_limited=counts[:, _RATE_LIMITED],
    )
