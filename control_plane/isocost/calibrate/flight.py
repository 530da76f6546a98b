"""One request as the client saw it."""

from __future__ import annotations

from dataclasses import dataclass, field

from isocost.calibrate.plan import Shape


@dataclass(slots=True)
class Flight:
    """Filled in as the answer comes; one that was cut keeps what it had.

    ``pieces`` are the times of the answer's pieces. ``input_tokens`` and ``output_tokens`` are what
    the engine counted; ``output_tokens`` is None unless the answer is complete.
    """

    shape: Shape
    sent_s: float = 0.0
    pieces: list[float] = field(default_factory=list)
    end_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    sent_bytes: int = 0
    received_bytes: int = 0

    @property
    def first_token_s(self) -> float | None:
        return self.pieces[0] if self.pieces else None

    @property
    def last_token_s(self) -> float | None:
        """None unless the answer is complete."""
        return self.pieces[-1] if self.pieces and self.output_tokens is not None else None

    @property
    def prompt_tokens(self) -> int:
        return self.shape.input_tokens if self.input_tokens is None else self.input_tokens

    def tokens_per_s(self, otherwise: float) -> float:
        """After its first token; ``otherwise`` where it was cut."""
        if self.output_tokens is None or len(self.pieces) < 2:
            return otherwise
        length_s = self.pieces[-1] - self.pieces[0]
        return (self.output_tokens - 1) / length_s if length_s > 0 else otherwise
