"""The GPUs of one node, with the models that they hold."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, replace

from isocost.errors import ConfigError, FieldError
from isocost.fake.cards import CARDS, Card
from isocost.fake.kv_cache import BLOCK_TOKENS
from isocost.fake.measured import speed_of
from isocost.fake.models import ModelSpec
from isocost.fake.speeds import Speed

#: The share of a card that vLLM takes at its start.
MEMORY_UTILISATION = 0.9
#: Activations and CUDA graphs of one card: with it an H100 keeps the 440,000 tokens that vLLM
#: prints for Llama-3.1-8B.
ACTIVATION_BYTES = 3_000_000_000
#: Who could not hold one prompt of this length would serve nobody.
LEAST_POOL_TOKENS = 2048
#: Cards of one host that NVLink joins; more of them would be pipeline stages, not one engine step.
COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Hardware:
    """``count`` cards of a kind, tensor-parallel when there are several, as the engine of ``model``
    has them. ``beside``: the models of other engines on the same cards, which all have equal parts
    of the memory that the weights leave.

    ConfigError: an unknown kind, a count that cannot share the model, or too little memory for it.
    """

    kind: str
    count: int
    model: ModelSpec
    beside: tuple[ModelSpec, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in CARDS:
            raise _refused("--gpu-kind", self.kind, f"must be one of {', '.join(CARDS)}")
        counts = _counts(self.model)
        if self.count not in counts:
            raise _refused(
                "--gpu-count",
                self.count,
                f"must be one of {', '.join(map(str, counts))}: {self.model.name} has "
                f"{self.model.attention_heads} attention heads",
            )
        if self.kv_pool_tokens < LEAST_POOL_TOKENS:
            raise _refused("--gpu-count", self.count, _too_small(self))

    @property
    def card(self) -> Card:
        return CARDS[self.kind]

    @property
    def speed(self) -> Speed:
        return speed_of(self.kind, self.model, self.count)

    @property
    def engines(self) -> tuple[Hardware, ...]:
        """The same cards as each of their engines has them, this one's first."""
        models = (self.model, *self.beside)
        return tuple(
            replace(self, model=model, beside=(*models[:place], *models[place + 1 :]))
            for place, model in enumerate(models)
        )

    @property
    def kv_blocks(self) -> int:
        return _kv_blocks(self.kind, self.count, self.model, self.beside)

    @property
    def kv_pool_bytes(self) -> int:
        return self.kv_pool_tokens * self.model.kv_bytes_per_token

    @property
    def kv_pool_tokens(self) -> int:
        return self.kv_blocks * BLOCK_TOKENS

    @property
    def max_length_tokens(self) -> int:
        """Of prompt and answer together: what the model and the KV cache allow."""
        return min(self.model.max_length_tokens, self.kv_pool_tokens)

    @property
    def vram_free_bytes(self) -> int:
        """Of one card, as NVML tells it: flat, because the engine reserves its share at start."""
        taken = int(self.card.vram_total_bytes * MEMORY_UTILISATION)
        return self.card.vram_total_bytes - self.card.reserved_bytes - taken


def gpu_uuids(node: str, seed: int, count: int) -> tuple[str, ...]:
    """The UUIDs of a node's GPUs: the same at every start."""
    choose = random.Random(f"{seed}/{node}")
    return tuple(f"GPU-{uuid.UUID(int=choose.getrandbits(128), version=4)}" for _ in range(count))


def _counts(model: ModelSpec) -> tuple[int, ...]:
    """Tensor-parallel ranks hold whole heads each."""
    return tuple(count for count in COUNTS if model.attention_heads % count == 0)


def _usable_bytes(kind: str, count: int, engines: int) -> int:
    """Of all cards, without the activations of so many engines on each."""
    taken = int(CARDS[kind].vram_total_bytes * MEMORY_UTILISATION)
    return (taken - engines * ACTIVATION_BYTES) * count


def _kv_blocks(kind: str, count: int, model: ModelSpec, beside: tuple[ModelSpec, ...]) -> int:
    """The engine's part of what weights leave; negative where they do not fit."""
    engines = 1 + len(beside)
    weights = sum(item.weight_bytes for item in (model, *beside))
    left = _usable_bytes(kind, count, engines) - weights
    return left // (engines * model.kv_bytes_per_token * BLOCK_TOKENS)


def _too_small(hardware: Hardware) -> str:
    kind, count, model, beside = hardware.kind, hardware.count, hardware.model, hardware.beside
    fits = [
        f"{fitting} x {card}"
        for card in CARDS
        for fitting in _counts(model)
        if _kv_blocks(card, fitting, model, beside) * BLOCK_TOKENS >= LEAST_POOL_TOKENS
    ]
    others = "".join(f", those of {item.name} {item.weight_bytes / 1e9:.0f} GB" for item in beside)
    return (
        f"{model.name} does not fit {count} x {kind}: its weights take "
        f"{model.weight_bytes / 1e9:.0f} GB{others} and {LEAST_POOL_TOKENS} tokens of KV cache "
        f"{LEAST_POOL_TOKENS * model.kv_bytes_per_token / 1e9:.1f} GB, the engine"
        f"{'s' if beside else ''} may use "
        f"{_usable_bytes(kind, count, 1 + len(beside)) / 1e9:.0f} GB; it fits "
        f"{', '.join(fits) or 'nowhere'}"
    )


def _refused(field: str, value: object, allowed: str) -> ConfigError:
    return ConfigError("fake-node", [FieldError(field, value, allowed)])
