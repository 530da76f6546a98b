"""One client's subscription to one type, delta: which resources it lacks and which are gone."""

from __future__ import annotations

from collections.abc import Iterable

from isocost.push.answers import Answers, Outcome, SubscriptionStatus
from isocost.push.request import DeltaRequest, RequestError
from isocost.push.snapshot import Response, TypeResources
from isocost.push.subscription import WILDCARD

#: Far more than there are resources; each is remembered as long as the stream lives.
MAX_NAMES = 10_000

#: Of what the client refused: it may have all, a part or nothing of that. No resource has this
#: version.
_UNSURE = ""


class DeltaSubscription:
    """The protocol for one type on one stream, without I/O.

    At most one response is outstanding; what changes meanwhile is not queued, the difference to
    what the client has is due once it has answered. What was refused is parked: it is not sent
    again until the type's content changes or the client asks for it by name.
    """

    def __init__(self, first: DeltaRequest, *, whole: bool) -> None:
        """``whole``: a client may subscribe to everything."""
        self._answers = Answers()
        self._whole = whole
        # The legacy way to ask for everything.
        self._wildcard = whole and not first.subscribe and not first.unsubscribe
        self._names: set[str] = set()
        #: By name, the version of what the client has, as far as it is known.
        self._held: dict[str, str] = dict(first.initial_versions)
        #: Names to be answered whatever the client has: it may have forgotten.
        self._asked: set[str] = set()
        #: A new subscription to everything is answered, even with nothing.
        self._begun = self._wildcard
        #: Names to be sent once more, unless they were refused.
        self._again: set[str] = set()
        #: Names that the last response was about.
        self._carried: tuple[str, ...] = ()
        #: Names that were refused, at this version of the type.
        self._parked: frozenset[str] = frozenset()
        self._parked_at = ""
        self._change(first)
        self._forget_others()

    @property
    def outstanding(self) -> bool:
        return self._answers.outstanding

    def on_request(self, request: DeltaRequest) -> Outcome:
        """Take a request after the first. Its names count whatever its nonce is."""
        outcome = self._answers.take(request.nonce, request.error)
        if outcome is Outcome.NACKED:
            for name in self._carried:
                if self.follows(name):
                    self._held[name] = _UNSURE
            self._parked |= frozenset(self._carried)
        elif outcome is Outcome.ACKED:
            self._parked -= frozenset(self._carried)
            if not self._parked:
                self._answers.forget_refusal()
        self._change(request)
        return outcome

    def refresh(self, names: frozenset[str]) -> None:
        """Send these once more even with equal content: the client forgot what it had."""
        self._again |= names

    def follows(self, name: str) -> bool:
        """Whether the client is subscribed to the resource of this name, be there one or not."""
        return self._wildcard or name in self._names

    def due(self, resources: TypeResources, keep: bool = False) -> Response | None:
        """What the client lacks, be a response outstanding or not; None if it lacks nothing.

        With ``keep`` nothing that it has is removed, unless it asks: that will be due without
        ``keep``. A name that it asks for and that does not exist is answered as removed.
        """
        parked = self._parked if resources.version == self._parked_at else frozenset()
        changed = tuple(
            name
            for name in resources.resources
            if name in self._asked
            or (
                name not in parked
                and self.follows(name)
                and (name in self._again or self._held.get(name) != resources.version_of(name))
            )
        )
        removed = sorted(self._asked - resources.resources.keys())
        if not keep:
            gone = self._held.keys() - resources.resources.keys() - self._asked - parked
            removed += sorted(gone)
        if not changed and not removed and not self._begun:
            return None
        return Response(resources, changed, tuple(removed))

    def sent(self, response: Response, nonce: str) -> None:
        for name in response.names:
            self._held[name] = response.resources.version_of(name)
        for name in response.removed:
            self._held.pop(name, None)
        self._carried = (*response.names, *response.removed)
        self._asked.clear()
        self._again.clear()
        self._begun = False
        if response.resources.version != self._parked_at:
            self._parked = frozenset()
        self._parked_at = response.resources.version
        self._answers.sent(response.resources.version, nonce)

    def behind(self, resources: TypeResources) -> bool:
        """Whether the client does not work with this content yet, or has refused it."""
        answers = self._answers
        return answers.outstanding or answers.refused or self.due(resources) is not None

    def status(self) -> SubscriptionStatus:
        return self._answers.status(frozenset(self._names), self._wildcard)

    def _change(self, request: DeltaRequest) -> None:
        # A name in both lists is wanted: an answer too many does no harm.
        self._unsubscribe(request.unsubscribe)
        self._subscribe(request.subscribe)

    def _subscribe(self, names: Iterable[str]) -> None:
        for name in names:
            if name == WILDCARD and self._whole:
                if not self._wildcard:
                    self._wildcard = self._begun = True
                    self._parked = frozenset()
            else:
                self._names.add(name)
                self._asked.add(name)
        if len(self._names) > MAX_NAMES:
            raise RequestError(f"it subscribes to more than {MAX_NAMES} names")

    def _unsubscribe(self, names: Iterable[str]) -> None:
        for name in names:
            if name == WILDCARD and self._whole:
                self._wildcard = self._begun = False
                self._forget_others()
            elif name in self._names:
                self._names.discard(name)
                if self._wildcard:
                    # The client cannot know whether everything still includes it.
                    self._asked.add(name)
                else:
                    self._asked.discard(name)
                    self._held.pop(name, None)

    def _forget_others(self) -> None:
        """What the client has and is not subscribed to is its own matter."""
        if not self._wildcard:
            self._held = {name: held for name, held in self._held.items() if name in self._names}
            self._asked &= self._names
