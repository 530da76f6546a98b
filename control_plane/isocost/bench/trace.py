"""What a load is made of: requests with their times, lengths and shared prefixes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace.

    ``blocks[i]`` names the prompt's tokens from ``i * block_tokens`` on, together with all that
    come before them: requests with the same first k blocks share a prefix of k blocks. The last
    block may be shorter. Empty: the prompt shares nothing.
    """

    #: Seconds since the trace's start.
    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    block_tokens: int = 512
    #: Who sent it: a client or a conversation; None = the trace does not say.
    user: str | None = None
    #: The class of request that its latencies are reported under; None = the trace has none.
    kind: str | None = None
