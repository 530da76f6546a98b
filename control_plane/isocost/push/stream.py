"""One client's stream without its I/O: all its subscriptions, and what to write next."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from isocost.push.request import Request, RequestError
from isocost.push.snapshot import Snapshot, TypeResources
from isocost.push.subscription import Outcome, Subscription, SubscriptionStatus
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ORDER, TABLE

#: Table push intervals kept for each stream: 100 s at five pushes a second, so that a report on
#: the last minute finds all of it.
INTERVAL_RING = 512

#: What is kept of a client's name, which it chooses itself.
NODE_ID_LIMIT = 128


@dataclass(frozen=True, slots=True)
class Send:
    """A response to write: which resources, at which nonce."""

    resources: TypeResources
    names: tuple[str, ...]
    nonce: str


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """A connected client. ``node_id`` is empty if it never said; ``types`` is by type URL."""

    node_id: str
    peer: str
    connected_s: float
    types: Mapping[str, SubscriptionStatus]


class Stream:
    """A client's subscriptions. ``name`` prefixes the nonces: a former stream's never match."""

    def __init__(self, name: str, peer: str, now_s: float) -> None:
        self._name = name
        self._peer = peer
        self._opened_s = now_s
        self._node_id = ""
        self._sends = 0
        self._subscriptions: dict[str, Subscription] = {}
        self._table_version: str | None = None
        self._table_written_s = 0.0
        self._intervals_ms: deque[float] = deque(maxlen=INTERVAL_RING)

    @property
    def client(self) -> str:
        """The client as a log line names it."""
        return f"{self._node_id or 'unnamed'} at {self._peer}"

    @property
    def table_intervals_ms(self) -> tuple[float, ...]:
        """Times between the last new Tables, oldest first, each when its write was done."""
        return tuple(self._intervals_ms)

    def on_request(self, request: Request) -> Outcome:
        """Take the next request; RequestError if its type is not served."""
        if request.type_url not in ORDER:
            raise RequestError(f"type {request.type_url!r} is not served here")
        # Most clients name themselves in their first request only.
        self._node_id = self._node_id or request.node_id[:NODE_ID_LIMIT]
        subscription = self._subscriptions.get(request.type_url)
        if subscription is not None:
            return subscription.on_request(request)
        self._subscriptions[request.type_url] = Subscription(
            request, wildcard_allowed=request.type_url == CLUSTER
        )
        return Outcome.SUBSCRIBED

    def next_send(self, snapshot: Snapshot) -> Send | None:
        """What to write now, and take it as sent; None if all that is due waits for an answer.

        While a type's newer content waits for the client's answer, later types wait as well: a
        table must not overtake its roster, nor a route its cluster.
        """
        for type_url in ORDER:
            subscription, resources = self._subscriptions.get(type_url), snapshot.get(type_url)
            if subscription is None or resources is None or not subscription.wants(resources):
                continue
            if subscription.outstanding:
                return None
            self._sends += 1
            send = Send(resources, subscription.selection(resources), f"{self._name}.{self._sends}")
            subscription.sent(resources.version, send.nonce)
            if type_url == CLUSTER and ENDPOINTS in self._subscriptions:
                # Envoy warms an updated cluster until endpoints come again, even equal ones.
                self._subscriptions[ENDPOINTS].refresh()
            return send
        return None

    def written(self, send: Send, now_s: float) -> None:
        """A write is done. Only a Table with a new version counts as a push."""
        if send.resources.type_url != TABLE or send.resources.version == self._table_version:
            return
        if self._table_version is not None:
            self._intervals_ms.append((now_s - self._table_written_s) * 1e3)
        self._table_version, self._table_written_s = send.resources.version, now_s

    def status(self, now_s: float) -> ClientStatus:
        return ClientStatus(
            node_id=self._node_id,
            peer=self._peer,
            connected_s=now_s - self._opened_s,
            types={url: held.status() for url, held in self._subscriptions.items()},
        )
