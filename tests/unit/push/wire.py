"""An xDS client and the wire to it, without I/O: what it has, what it says, in either variant."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from isocost.push.answers import Outcome
from isocost.push.request import DeltaRequest, Request
from isocost.push.snapshot import Snapshot, TypeResources
from isocost.push.stream import Send, Stream
from isocost.push.type_urls import CLUSTER, ENDPOINTS
from isocost.push.variant import Variant
from tests.contract.xds_resources import clusters


@lru_cache
def content(type_url: str, names: frozenset[str], number: int) -> TypeResources:
    """Resources of these names; another number is other content."""
    if type_url == CLUSTER:
        return clusters(*sorted(names), marker=number)
    return TypeResources.hashed(type_url, {name: f"{name}{number}".encode() for name in names})


@dataclass
class Holding:
    """What the client has of one type; ``everything`` is the legacy way to ask for it."""

    names: set[str] = field(default_factory=set)
    everything: bool = False
    nonce: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    #: Names that it refused as they are now.
    refused: set[str] = field(default_factory=set)

    def wants(self, name: str) -> bool:
        return self.everything or "*" in self.names or name in self.names


class Client:
    """Both directions are in order, and as slow as the test likes."""

    def __init__(self, variant: Variant, stream: Stream) -> None:
        self.delta = variant.delta
        self.stream = stream
        self.down: deque[Send] = deque()
        self.up: deque[Request | DeltaRequest] = deque()
        self.held: dict[str, Holding] = {}
        #: Clusters that came and whose endpoints did not come after them.
        self.warming: set[str] = set()

    def ask(self, type_url: str, names: Iterable[str]) -> None:
        """Subscribe to these names, and to no other."""
        wanted = set(names)
        holding = self.held.get(type_url)
        if holding is None:
            holding = self.held[type_url] = Holding(everything=type_url == CLUSTER and not wanted)
        elif wanted:
            # Naming one thing alone ends the legacy way; naming it in delta adds to it.
            holding.everything = holding.everything and self.delta
        added, gone = wanted - holding.names, holding.names - wanted
        holding.names = wanted
        if self.delta:
            self.up.append(DeltaRequest(type_url, tuple(sorted(added)), tuple(sorted(gone))))
        else:
            self.up.append(Request(type_url, tuple(sorted(wanted)), holding.nonce))
        holding.bodies = {n: body for n, body in holding.bodies.items() if holding.wants(n)}

    def answer(self, refuses: bool = False) -> None:
        """Take the next response and say what became of it."""
        send = self.down.popleft()
        resources = send.response.resources
        type_url = resources.type_url
        holding = self.held[type_url]
        holding.nonce = send.nonce
        bodies = {name: resources.resources[name] for name in send.response.names}
        names = {*bodies, *send.response.removed}
        if refuses:
            holding.refused |= names
        else:
            # State of the world answers for all of it at once.
            holding.refused = holding.refused - names if self.delta else set()
            self._take(type_url, holding, bodies, send.response.removed)
        error = "no" if refuses else None
        if self.delta:
            self.up.append(DeltaRequest(type_url, nonce=send.nonce, error=error))
        else:
            self.up.append(Request(type_url, tuple(sorted(holding.names)), send.nonce, error))

    def _take(
        self, type_url: str, holding: Holding, bodies: dict[str, bytes], removed: tuple[str, ...]
    ) -> None:
        if type_url == CLUSTER and not self.delta:
            holding.bodies.clear()
        holding.bodies |= {name: body for name, body in bodies.items() if holding.wants(name)}
        for name in removed:
            holding.bodies.pop(name, None)
        if type_url == CLUSTER:
            self.warming |= bodies.keys()
        if type_url == ENDPOINTS:
            self.warming -= bodies.keys()

    def server_reads(self) -> tuple[str, Outcome]:
        request = self.up.popleft()
        return request.type_url, self.stream.on_request(request)

    def server_writes(self, snapshot: Snapshot) -> Send | None:
        send = self.stream.next_send(snapshot)
        if send is not None:
            self.down.append(send)
        return send

    def settle(self, snapshot: Snapshot) -> None:
        """From here on the client accepts all that it gets, until nothing moves. As an Envoy it
        then follows the endpoints of all its clusters, if it follows any.
        """
        for _ in range(500):
            if ENDPOINTS in self.held and CLUSTER in self.held:
                endpoints, clusters = self.held[ENDPOINTS], self.held[CLUSTER].bodies
                if not endpoints.names >= clusters.keys():
                    self.ask(ENDPOINTS, endpoints.names | clusters.keys())
            written = self.server_writes(snapshot)
            if written is None and not self.down and not self.up:
                return
            if self.down:
                self.answer()
            if self.up:
                self.server_reads()
        raise AssertionError("the stream never comes to rest")

    def require_current(self, snapshot: Snapshot) -> None:
        """The client has all that it is subscribed to as it is, but for what it refused."""
        for type_url, holding in self.held.items():
            current = snapshot.get(type_url)
            if current is None or (holding.refused and not self.delta):
                continue
            wanted = {n: body for n, body in current.resources.items() if holding.wants(n)}
            # Of other types state of the world knows no word for what is gone.
            can_remove = self.delta or type_url == CLUSTER
            kept = {n: b for n, b in holding.bodies.items() if can_remove or n in wanted}
            differ = {n for n in {*kept, *wanted} if kept.get(n) != wanted.get(n)}
            assert differ <= holding.refused, type_url
            if type_url == ENDPOINTS:
                waiting = self.warming & wanted.keys() - holding.refused
                assert not waiting, "clusters came without endpoints after"
