"""One client's stream without its I/O: all its subscriptions, and what to write next."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from isocost.push.answers import Outcome, SubscriptionStatus
from isocost.push.eds_name import eds_name
from isocost.push.request import DeltaRequest, Request, RequestError
from isocost.push.snapshot import Response, Snapshot
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ORDER, ROUTES, TABLE
from isocost.push.variant import WHOLE, AnySubscription, Variant

#: Table push intervals kept for each stream: 100 s at five pushes a second, so that a report on
#: the last minute finds all of it.
INTERVAL_RING = 512

#: What is kept of a client's name, which it chooses itself.
NODE_ID_LIMIT = 128


@dataclass(frozen=True, slots=True)
class Send:
    """A response to write, at which nonce."""

    response: Response
    nonce: str


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """A connected client. ``node_id`` is empty if it never said; ``types`` is by type URL."""

    node_id: str
    peer: str
    delta: bool
    connected_s: float
    types: Mapping[str, SubscriptionStatus]


class Stream:
    """A client's subscriptions. ``name`` prefixes the nonces: a former stream's never match."""

    def __init__(self, name: str, peer: str, now_s: float, variant: Variant = WHOLE) -> None:
        self._name = name
        self._peer = peer
        self._opened_s = now_s
        self._variant = variant
        self._node_id = ""
        self._sends = 0
        self._subscriptions: dict[str, AnySubscription] = {}
        #: The snapshot of which nothing is due any more: most answers and wake-ups end here.
        self._settled: Snapshot | None = None
        #: Clusters that the client was sent and whose endpoints it did not ask for yet, with
        #: the name of these.
        self._announced: dict[str, str] = {}
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

    def on_request(self, request: Request | DeltaRequest) -> Outcome:
        """Take the next request; RequestError if its type is not served."""
        if request.type_url not in ORDER:
            raise RequestError(f"type {request.type_url!r} is not served here")
        # Most clients name themselves in their first request only.
        self._node_id = self._node_id or request.node_id[:NODE_ID_LIMIT]
        subscription = self._subscriptions.get(request.type_url)
        if subscription is None:
            added = self._variant.subscribe(request, whole=request.type_url == CLUSTER)
            held = {**self._subscriptions, request.type_url: added}
            self._subscriptions = {url: held[url] for url in ORDER if url in held}
            self._settled = None
            return Outcome.SUBSCRIBED
        outcome = subscription.on_request(request)
        if outcome is Outcome.NACKED and request.type_url == CLUSTER:
            self._announced.clear()
        if self._settled is not None:
            resources = self._settled.get(request.type_url)
            if resources is not None and subscription.due(resources) is not None:
                self._settled = None
        return outcome

    def settled(self, snapshot: Snapshot) -> bool:
        """Whether nothing of the snapshot will be due before the client asks for something."""
        return snapshot is self._settled

    def next_send(self, snapshot: Snapshot) -> Send | None:
        """What to write now, and take it as sent; None if all that is due waits for an answer.

        While a type's newer content waits for the client's answer, later types wait as well: a
        table must not overtake its roster, nor a route its cluster. Routes wait for a new cluster's
        endpoints too: without them Envoy does not take it into use. What is gone is removed when
        the routes that may still name it are: those that the client works with, not those that it
        was sent.
        """
        if snapshot is self._settled:
            return None
        keep = self._routes_behind(snapshot)
        complete = not keep
        for type_url, subscription in self._subscriptions.items():
            resources = snapshot.get(type_url)
            if resources is None:
                continue
            if type_url == ROUTES and self._endpoints_awaited(snapshot):
                complete = False
                continue
            breaks = type_url in (CLUSTER, ENDPOINTS)
            response = subscription.due(resources, keep=keep and breaks)
            if response is None:
                continue
            if subscription.outstanding:
                return None
            self._sends += 1
            send = Send(response, f"{self._name}.{self._sends}")
            subscription.sent(response, send.nonce)
            if type_url == CLUSTER:
                self._warm(response)
            return send
        if complete:
            self._settled = snapshot
        return None

    def written(self, send: Send, now_s: float) -> None:
        """A write is done. Only a Table with a new version counts as a push."""
        table = send.response.resources
        if table.type_url != TABLE or table.version == self._table_version:
            return
        if self._table_version is not None:
            self._intervals_ms.append((now_s - self._table_written_s) * 1e3)
        self._table_version, self._table_written_s = table.version, now_s

    def status(self, now_s: float) -> ClientStatus:
        return ClientStatus(
            node_id=self._node_id,
            peer=self._peer,
            delta=self._variant.delta,
            connected_s=now_s - self._opened_s,
            types={url: held.status() for url, held in self._subscriptions.items()},
        )

    def _routes_behind(self, snapshot: Snapshot) -> bool:
        subscription, routes = self._subscriptions.get(ROUTES), snapshot.get(ROUTES)
        return subscription is not None and routes is not None and subscription.behind(routes)

    def _warm(self, response: Response) -> None:
        """Envoy warms an updated cluster until its endpoints come again, even equal ones."""
        endpoints = self._subscriptions.get(ENDPOINTS)
        if endpoints is None:
            return
        bodies = response.resources.resources
        named = {name: eds_name(bodies[name]) for name in response.names}
        wanted = {name: of_it for name, of_it in named.items() if of_it is not None}
        endpoints.refresh(frozenset(wanted.values()))
        self._announced |= wanted

    def _endpoints_awaited(self, snapshot: Snapshot) -> bool:
        """Has the client still to ask for the endpoints of a cluster that it was sent?"""
        if not self._announced:
            return False
        clusters, endpoints = self._subscriptions[CLUSTER], self._subscriptions[ENDPOINTS]
        # Those that exist no more, or were given up, are waited for by nobody.
        self._announced = {
            name: of_it
            for name, of_it in self._announced.items()
            if snapshot.has(CLUSTER, name)
            and snapshot.has(ENDPOINTS, of_it)
            and clusters.follows(name)
            and not endpoints.follows(of_it)
        }
        return bool(self._announced)
