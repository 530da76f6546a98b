"""What became of one request of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Why an answer is not complete: no connection, another status than 200, the connection ended, the
#: time was up, no [DONE] (not streamed: half a JSON object), an event that is no part of an answer
#: or carries an error (not streamed: such a body), the run was interrupted.
FailureKind = Literal[
    "connect",
    "status_2xx",
    "status_3xx",
    "status_4xx",
    "status_5xx",
    "reset",
    "timeout",
    "truncated",
    "bad_event",
    "unanswered",
]

#: Of a server that has too much to do.
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class RequestResult:
    """One request's life, in seconds since the replay's start; None = it never came to that.

    ``failure`` is None for a complete answer.
    """

    scheduled_s: float
    sent_s: float
    end_s: float
    input_tokens: int
    failure: FailureKind | None
    #: What the server or the system said about a failure.
    detail: str | None = None
    status: int | None = None
    first_byte_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    chunks: int = 0
    output_tokens: int | None = None
    #: The gateway's name for the request, which its access log repeats.
    request_id: str | None = None
    #: The node that answered, as it names itself in ``system_fingerprint``.
    node: str | None = None
    #: The trace's class of the request, and its user.
    kind: str | None = None
    user: str | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def rejected(self) -> bool:
        return self.status == TOO_MANY_REQUESTS

    @property
    def ttft_ms(self) -> float | None:
        """Scheduled time to first token."""
        return None if self.first_token_s is None else (self.first_token_s - self.scheduled_s) * 1e3

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first; unknown without usage or with one token."""
        if self.first_token_s is None or self.last_token_s is None:
            return None
        if self.output_tokens is None or self.output_tokens < 2 or self.chunks < 2:
            return None
        return (self.last_token_s - self.first_token_s) * 1e3 / (self.output_tokens - 1)

    @property
    def e2e_ms(self) -> float:
        """Scheduled time to the end of the answer."""
        return (self.end_s - self.scheduled_s) * 1e3
