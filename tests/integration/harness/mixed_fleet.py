"""A fleet of unlike cards and two models: A100s with a 7B, H100s with a 72B, one node with both."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from tests.integration.harness.fleet import FakeNode, Fleet
from tests.integration.harness.ports import free_port
from tests.integration.harness.saturation import (
    Saturation,
    Traffic,
    saturated_tokens_per_s,
    tokens_while,
)

SMALL, LARGE = "qwen2.5-7b", "qwen2.5-72b"
#: So few places that a few dozen open requests keep every engine full and one core free.
MAX_NUM_SEQS = 4
#: The large model's queues are twice as long as the small one's.
TRAFFIC = {
    SMALL: Traffic(SMALL, prompt_tokens=400, output_tokens=60, open=24),
    LARGE: Traffic(LARGE, prompt_tokens=400, output_tokens=40, open=48),
}
_SMALL, _LARGE = model_named(SMALL), model_named(LARGE)
KINDS = {
    "a100": Hardware("A100", 1, _SMALL),
    "h100": Hardware("H100", 4, _LARGE),
    "both": Hardware("H100", 4, _SMALL, (_LARGE,)),
}
COUNTS = {"a100": 2, "h100": 2, "both": 1}


@dataclass(frozen=True, slots=True)
class Share:
    """A node's part of the tokens that a model's nodes gave, and of those they can give."""

    model: str
    node: str
    capacity: float
    given: float

    @property
    def error(self) -> float:
        return self.given / self.capacity - 1

    def __str__(self) -> str:
        return (
            f"{self.model} on {self.node}: {self.given:.2%} of {self.capacity:.2%} "
            f"({self.error:+.1%})"
        )


class MixedFleet(Fleet):
    model = SMALL
    #: No prompt of one measurement comes again in the next: it would be cached.
    _seeds = itertools.count(1)

    async def start_mixed(self, policy: str) -> None:
        for kind, count in COUNTS.items():
            for number in range(1, count + 1):
                name = f"{kind}-{number}"
                self.nodes.append(FakeNode(name, "rack-1", name, free_port(), KINDS[kind]))
        await self.start_planned(policy, "--max-num-seqs", str(MAX_NUM_SEQS))

    async def shares(self, models: Iterable[str], learn_s: float, measure_s: float) -> list[Share]:
        """Under saturation of these models: what each of their nodes gave in about ``measure_s``,
        after about ``learn_s``. Every answer must come, and from a node that has the model.
        """
        traffic = {model: TRAFFIC[model] for model in models}
        capacity = dict(self._capacities(traffic))
        urls = {node.name: node.url for node in self.nodes}

        def tokens_in(duration_s: float) -> Mapping[str, float]:
            return {
                model: duration_s * sum(n for (of, _), n in capacity.items() if of == model)
                for model in traffic
            }

        async with Saturation(self.envoy.url, traffic.values(), next(self._seeds)) as saturation:
            # Twice the time and a half: what is not quite saturated is told by its shares.
            for duration_s in (learn_s, measure_s):
                given = await tokens_while(
                    self.session, urls, tokens_in(duration_s), 2.5 * duration_s + 10.0
                )
        assert not saturation.failures
        assert set(saturation.answered) <= set(capacity), saturation.answered
        return [
            Share(
                model,
                node,
                tokens_per_s / sum(n for (of, _), n in capacity.items() if of == model),
                given[model, node] / sum(n for (of, _), n in given.items() if of == model),
            )
            for (model, node), tokens_per_s in capacity.items()
        ]

    def _capacities(
        self, traffic: Mapping[str, Traffic]
    ) -> Iterator[tuple[tuple[str, str], float]]:
        """Of each model on each node that has it, what it gives while requests always wait."""
        for kind, count in COUNTS.items():
            found = saturated_tokens_per_s(KINDS[kind], MAX_NUM_SEQS, traffic)
            for number in range(1, count + 1):
                for model, tokens_per_s in found.items():
                    yield (model, f"{kind}-{number}"), tokens_per_s
