"""One client's subscription to one type, state of the world: when is something due."""

from __future__ import annotations

from isocost.push.answers import Answers, Outcome, SubscriptionStatus
from isocost.push.request import Request
from isocost.push.snapshot import Response, TypeResources

#: The name that subscribes to everything, for types that allow it.
WILDCARD = "*"


class Subscription:
    """The protocol for one type on one stream, without I/O.

    At most one response is outstanding; what is published meanwhile is not queued, the newest is
    due once the client has answered. What was refused is parked: it is not sent again until the
    content changes or the client asks for other names.
    """

    def __init__(self, first: Request, *, whole: bool) -> None:
        """``whole``: of the types whose responses say all there is, so that what is missing from
        one is removed. Of these a client may subscribe to everything.
        """
        # The first request may carry nonce, version and error of a former stream: they mean
        # nothing here, and the client gets what is current.
        self._answers = Answers()
        self._whole = whole
        self._names: frozenset[str] = frozenset()
        self._wildcard = False
        # An empty list means everything, until the client has once named something.
        self._named = not whole
        self._asked = True
        self._refresh = False
        #: Of what is still subscribed to, the last response; and what it was made from, for the
        #: many times when nothing is new.
        self._sent: dict[str, bytes] = {}
        self._made_from: TypeResources | None = None
        self._rename(first.names)

    @property
    def outstanding(self) -> bool:
        return self._answers.outstanding

    def on_request(self, request: Request) -> Outcome:
        """Take a request after the first."""
        outcome = self._answers.take(request.nonce, request.error)
        # A stale one crossed with a newer response, whose own answer will name all that is wanted.
        if outcome is not Outcome.STALE:
            self._rename(request.names)
        if outcome is Outcome.ACKED:
            self._answers.forget_refusal()
        return outcome

    def refresh(self, _names: frozenset[str]) -> None:
        """Send once more even with equal content: the client forgot what it had."""
        self._refresh = True

    def follows(self, name: str) -> bool:
        """Whether the client is subscribed to the resource of this name, be there one or not."""
        return self._wildcard or name in self._names

    def due(self, resources: TypeResources, keep: bool = False) -> Response | None:
        """What the client lacks, be a response outstanding or not; None if it lacks nothing.

        With ``keep`` nothing that it has is removed: that will be due without ``keep``. An unknown
        name does not hold back the others.
        """
        nothing_new = resources is self._made_from and not self._asked and not self._refresh
        if nothing_new or (not self._wildcard and not self._names):
            return None
        if keep and self._whole:
            resources = self._with_those_gone(resources)
        held = resources.resources
        names = tuple(filter(self.follows, held))
        if not names and not self._whole:
            return None
        # What was refused would be refused again.
        refresh = self._refresh and not self._answers.refused
        if not self._asked and not refresh and self._sent == {name: held[name] for name in names}:
            return None
        return Response(resources, names)

    def sent(self, response: Response, nonce: str) -> None:
        held = response.resources.resources
        self._sent = {name: held[name] for name in response.names}
        self._made_from = response.resources
        self._asked = self._refresh = False
        self._answers.sent(response.resources.version, nonce)

    def behind(self, resources: TypeResources) -> bool:
        """Whether the client does not work with this content yet, or has refused it."""
        answers = self._answers
        return answers.outstanding or answers.refused or self.due(resources) is not None

    def status(self) -> SubscriptionStatus:
        return self._answers.status(self._names, self._wildcard)

    def _with_those_gone(self, resources: TypeResources) -> TypeResources:
        """The resources, and those of the last response that are no more."""
        gone = self._sent.keys() - resources.resources.keys()
        if not gone:
            return resources
        kept = {name: body for name, body in self._sent.items() if name in gone}
        return TypeResources.hashed(resources.type_url, {**resources.resources, **kept})

    def _rename(self, names: tuple[str, ...]) -> None:
        self._named = self._named or bool(names)
        wildcard = self._whole and (WILDCARD in names or not self._named)
        wanted = frozenset(names) - {WILDCARD} if wildcard else frozenset(names)
        # Giving up names needs no answer; new ones do, also for content that was refused.
        if (wildcard and not self._wildcard) or (not wildcard and wanted - self._names):
            self._asked = True
        self._wildcard = wildcard
        self._names = wanted
        if not wildcard:
            self._sent = {name: body for name, body in self._sent.items() if name in wanted}
