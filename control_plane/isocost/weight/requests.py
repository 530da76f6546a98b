"""The fleet's mean request, by which nodes of unlike strengths are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isocost.observe.fleet import Observed

#: Of a prompt that nobody has seen: a short conversation.
DEFAULT_PROMPT_TOKENS = 1000.0
#: Of an answer where none has ended yet.
DEFAULT_OUTPUT_TOKENS = 256.0
#: The mean over what is open now follows the traffic in about this time.
_SMOOTHED_S = 10.0


@dataclass(frozen=True, slots=True)
class MeanRequest:
    prompt_tokens: float
    output_tokens: float


class RequestMean:
    """Remembers the mean request from tick to tick. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._prompt_tokens: float | None = None
        self._at_s = 0.0

    def update(self, observed: Observed, output_tokens: float | None, now_s: float) -> MeanRequest:
        """What the gateways have open, less the answers that they expect; ``output_tokens``: the
        mean answer, None if none was heard of.
        """
        output = DEFAULT_OUTPUT_TOKENS if output_tokens is None else output_tokens
        open_now = int(observed.in_flight.sum())
        if open_now:
            prompt = max(int(observed.kv_tokens.sum()) / open_now - output, 1.0)
            passed_s = max(now_s - self._at_s, 0.0)
            # A few open requests say little of the mean.
            part = (1.0 - math.exp(-passed_s / _SMOOTHED_S)) * min(open_now / 10.0, 1.0)
            before = self._prompt_tokens
            self._prompt_tokens = prompt if before is None else before + part * (prompt - before)
        self._at_s = now_s
        return MeanRequest(self._prompt_tokens or DEFAULT_PROMPT_TOKENS, output)
