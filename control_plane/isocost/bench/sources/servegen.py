"""ServeGen's client mix: few clients send most requests, each with its own bursts and lengths.

Xiang et al., "ServeGen: Workload Characterization and Generation of Large Language Model Serving
in Production", https://github.com/alibaba/ServeGen. The file has one line a client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.bench.sources.lengths import Lengths
from isocost.bench.sources.renewal import MAX_CV, MIN_CV, Law, arrivals_s, check_count
from isocost.bench.sources.rows import (
    MAX_NUMBER,
    MAX_TOKENS,
    Field,
    csv_rows,
    number,
    optional,
    text,
)
from isocost.bench.trace import TraceRequest
from isocost.errors import StartError

Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Client:
    """One client: its mean rate, its arrivals' law and burstiness, and its lengths if known."""

    name: str
    rate_per_s: float
    cv: float
    law: Law
    lengths: tuple[Lengths, Lengths] | None


def read_clients(lines: Iterable[str], source: str) -> tuple[Client, ...]:
    """The clients that send anything; StartError if there is none, or none with known lengths."""
    clients: list[Client] = []
    for name, rate, cv, law, in_mean, in_p99, out_mean, out_p99 in csv_rows(lines, source, FIELDS):
        if rate == 0:
            continue
        if cv is None or cv < MIN_CV or law is None:
            raise StartError(
                f"{source}: client {name!r}: its rate is {rate:g}, so it needs a "
                f"rate_weighted_iat_cv of at least {MIN_CV:g} and a usual_arrival_model"
            )
        known = None not in {in_mean, in_p99, out_mean, out_p99}
        clients.append(
            Client(
                name,
                rate,
                cv,
                law,
                (Lengths.fitted(in_mean, in_p99), Lengths.fitted(out_mean, out_p99))
                if known
                else None,
            )
        )
    if not any(client.lengths for client in clients):
        raise StartError(f"{source}: no client has a rate above 0 and all of its lengths")
    return tuple(clients)


def generate(
    clients: Sequence[Client], rate_per_s: float | None, duration_s: float, seed: int
) -> tuple[TraceRequest, ...]:
    """Every client's own renewal process; ``rate_per_s`` scales all to that total, None = as is.

    A request of a client whose lengths are unknown has those of another client, drawn anew for
    each request in proportion to the clients' rates.
    """
    total = sum(client.rate_per_s for client in clients)
    factor = 1.0 if rate_per_s is None else rate_per_s / total
    check_count(total * factor * duration_s)
    requests: list[TraceRequest] = []
    for index, client in enumerate(clients):
        # A stream of its own: a client's requests do not depend on the others'.
        rng = np.random.default_rng([seed, index])
        times = arrivals_s(client.law, client.rate_per_s * factor, client.cv, duration_s, rng)
        inputs, outputs = _lengths(client, clients, times.size, rng)
        requests.extend(
            TraceRequest(at_s, input_tokens, output_tokens, user=client.name)
            for at_s, input_tokens, output_tokens in zip(
                times.tolist(), inputs.tolist(), outputs.tolist(), strict=True
            )
        )
    requests.sort(key=lambda request: request.arrival_s)
    return tuple(requests)


def _lengths(
    client: Client, clients: Sequence[Client], count: int, rng: np.random.Generator
) -> tuple[Tokens, Tokens]:
    """Prompt and answer lengths of ``count`` requests."""
    if client.lengths is not None:
        prompt, answer = client.lengths
        return prompt.draw(count, rng), answer.draw(count, rng)
    rates = np.array([other.rate_per_s if other.lengths else 0.0 for other in clients])
    donors = rng.choice(len(clients), size=count, p=rates / rates.sum())
    inputs, outputs = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for donor in np.unique(donors):
        own = donors == donor
        inputs[own], outputs[own] = _lengths(clients[donor], clients, int(own.sum()), rng)
    return inputs, outputs


_LENGTH = {"low": 0.1, "high": float(MAX_TOKENS)}
FIELDS = (
    text("client"),
    number("mean_rate_per_s", 0, MAX_NUMBER),
    optional(number("rate_weighted_iat_cv", 0, MAX_CV)),
    optional(Field("usual_arrival_model", Law, " or ".join(law.value for law in Law))),
    *(
        optional(number(f"{side}_{figure}", **_LENGTH))
        for side in ("input", "output")
        for figure in ("mean", "p99")
    ),
)
