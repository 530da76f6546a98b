"""What requests are expected to be like, on the wire: changes slowly and is sent seldom."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from isocost.config import ModelPlacement
from isocost.observe.history import History, mean_output_tokens, rounded, user_bytes
from isocost.push.fleet import fleet_resources
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import ESTIMATES
from isocost.v1 import estimates_pb2

#: 64 KiB for each Envoy at most this often: an expectation is no news five times a second.
PERIOD_S = 2.0


class EstimatesSource:
    """Makes the resource when it is due. Times are monotonic seconds."""

    def __init__(self, history: History, models: Sequence[ModelPlacement]) -> None:
        self._history = history
        self._models = models
        self._at_s: float | None = None

    def configure(self, models: Sequence[ModelPlacement]) -> None:
        """Other models; the resource is due at once."""
        self._models, self._at_s = models, None

    def due(self, now_s: float) -> TypeResources | None:
        """The resource of now; None if the last one is too young. Equal content has an equal
        version, which is not sent again.
        """
        if self._at_s is not None and now_s - self._at_s < PERIOD_S:
            return None
        self._at_s = now_s
        version, content = encode_estimates(self._history, self._models)
        return fleet_resources(ESTIMATES, f"{version:016x}", content)


def encode_estimates(history: History, models: Sequence[ModelPlacement]) -> tuple[int, bytes]:
    """The version and the serialised message; equal estimates give an equal version."""
    known = history.known()
    message = estimates_pb2.Estimates(user_output=user_bytes(known))
    overall = mean_output_tokens(known)
    if overall is not None:
        message.output_tokens = rounded(overall)
    configured = {model.name: model for model in models}
    for name in sorted({*configured, *filter(None, known.models)}):
        count, tokens = known.models.get(name, (0.0, 0.0))
        model = configured.get(name)
        mean = rounded(tokens / count) if count else 0.0
        message.models.add(
            name=name,
            output_tokens=mean or (model.output_tokens if model else 0.0),
            token_coefficients=model.token_coefficients if model else (),
        )
    content = message.SerializeToString(deterministic=True)
    version = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
    message.version = version
    return version, message.SerializeToString(deterministic=True)
