"""The two variants of xDS: the same exchange, with other messages and other bookkeeping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from isocost.push.answers import Outcome, SubscriptionStatus
from isocost.push.delta_subscription import DeltaSubscription
from isocost.push.encode import delta_body, whole_body
from isocost.push.request import DeltaRequest, Request, parse_delta_request, parse_request
from isocost.push.snapshot import Response, TypeResources
from isocost.push.subscription import Subscription


class AnySubscription(Protocol):
    """The protocol for one type on one stream, in either variant."""

    def __init__(self, first: Any, *, whole: bool) -> None: ...

    @property
    def outstanding(self) -> bool: ...

    def on_request(self, request: Any) -> Outcome: ...

    def refresh(self, names: frozenset[str]) -> None: ...

    def follows(self, name: str) -> bool: ...

    def due(self, resources: TypeResources, keep: bool = False) -> Response | None: ...

    def sent(self, response: Response, nonce: str) -> None: ...

    def behind(self, resources: TypeResources) -> bool: ...

    def status(self) -> SubscriptionStatus: ...


@dataclass(frozen=True, slots=True)
class Variant:
    """``method`` is the one of the aggregated discovery service; ``body`` lacks the nonce."""

    method: str
    delta: bool
    parse: Callable[[bytes], Request | DeltaRequest]
    subscribe: Callable[..., AnySubscription]
    body: Callable[[Response], bytes]


WHOLE = Variant("StreamAggregatedResources", False, parse_request, Subscription, whole_body)
DELTA = Variant(
    "DeltaAggregatedResources", True, parse_delta_request, DeltaSubscription, delta_body
)
