"""How fast each node works, learned from the times that the gateways saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import NodeObservation
from isocost.observe.slopes import Floats, Rows, SlopeLearner

#: Of a node that nobody has seen work: about an 8B model on one H100.
PRIOR_TOKEN_S = 1.0 / 15_000.0
PRIOR_REQUEST_S = 0.0005

#: The part of an answer's decoding that one more open request delays the next prompt by: steps are
#: shared, so only a tenth of what its tokens cost all others. Found in simulation.
DECODE_SHARE = 0.1
#: Tokens of an answer where no answer has ended yet.
DEFAULT_OUTPUT_TOKENS = 256.0

#: How far pending tokens and open requests usually vary.
_TYPICAL_TOKENS = 500.0
_TYPICAL_OPEN = 2.0

_prefill_of = attrgetter("prefill")
_decode_of = attrgetter("decode")


@dataclass(frozen=True)
class Speeds:
    """Of n nodes, each [n]. ``token_s``: seconds per pending prompt token; ``step_s``: by how much
    one more open request lengthens the time per output token. Both are above 0; they come from a
    prior where not ``token_learned`` or not ``step_learned``.
    """

    token_s: Floats
    token_learned: NDArray[np.bool_]
    step_s: Floats
    step_learned: NDArray[np.bool_]

    def request_s(self, output_tokens: float) -> Floats:
        """Seconds by which an open request delays a new one, at answers of this mean length."""
        result: Floats = self.step_s * (output_tokens * DECODE_SHARE)
        return result


class SpeedLearner:
    """One row per node; rows are given out by the owner, who calls ``grow`` before it uses one."""

    def __init__(self) -> None:
        self._prefill = SlopeLearner(PRIOR_TOKEN_S, _TYPICAL_TOKENS)
        prior_step_s = PRIOR_REQUEST_S / (DECODE_SHARE * DEFAULT_OUTPUT_TOKENS)
        self._decode = SlopeLearner(prior_step_s, _TYPICAL_OPEN)

    def add(self, rows: Rows, nodes: Sequence[NodeObservation]) -> None:
        """Take what a batch says of ``rows`` [m]."""
        self._prefill.add(rows, np.array([_prefill_of(node) for node in nodes], dtype=np.float64))
        self._decode.add(rows, np.array([_decode_of(node) for node in nodes], dtype=np.float64))

    def update(self, rows: Rows, pools: Rows, now_s: float) -> Speeds:
        """The speeds of ``rows`` [n] at ``now_s``; ``pools`` [n]: nodes that should be alike."""
        prefill = self._prefill.update(rows, pools, now_s)
        decode = self._decode.update(rows, pools, now_s)
        return Speeds(prefill.slope, prefill.learned, decode.slope, decode.learned)

    def grow(self, rows: int) -> None:
        self._prefill.grow(rows)
        self._decode.grow(rows)

    def keep(self, rows: Rows) -> None:
        """Keep the given rows only, in the given order."""
        self._prefill.keep(rows)
        self._decode.keep(rows)
