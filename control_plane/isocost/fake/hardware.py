"""The GPUs of one node, with the model that they hold."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

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
    """``count`` cards of a kind, tensor-parallel when there are several.

    ConfigError: an unknown kind, a count that cannot share the model, or too little memory for it.
    """

    kind: str
    count: int
    model: ModelSpec

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
            raise _refused("--gpu-count", self.count, _too_small(self.kind, self.count, self.model))

    @property
    def card(self) -> Card:
        return CARDS[self.kind]

    @property
    def speed(self) -> Speed:
        return speed_of(self.kind, self.model, self.count)

    @property
    def kv_blocks(self) -> int:
        return _kv_blocks(self.kind, self.count, self.model)

    @property
    def kv_pool_tokens(self) -> int:
        return self.kv_blocks * BLOCK_TOKENS

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


def _usable_bytes(kind: str, count: int) -> int:
    per_card = int(CARDS[kind].vram_total_bytes * MEMORY_UTILISATION) - ACTIVATION_BYTES
    return per_card * count


def _kv_blocks(kind: str, count: int, model: ModelSpec) -> int:
    """What weights leave; negative where they do not fit."""
    left = _usable_bytes(kind, count) - model.weight_bytes
    return left // (model.kv_bytes_per_token * BLOCK_TOKENS)


def _too_small(kind: str, count: int, model: ModelSpec) -> str:
    fits = [
        f"{fitting} x {card}"
        for card in CARDS
        for fitting in _counts(model)
        if _kv_blocks(card, fitting, model) * BLOCK_TOKENS >= LEAST_POOL_TOKENS
    ]
    return (
        f"{model.name} does not fit {count} x {kind}: its weights take "
        f"{model.weight_bytes / 1e9:.0f} GB and {LEAST_POOL_TOKENS} tokens of KV cache "
        f"{LEAST_POOL_TOKENS * model.kv_bytes_per_token / 1e9:.1f} GB, the engine may use "
        f"{_usable_bytes(kind, count) / 1e9:.0f} GB; it fits {', '.join(fits)}"
    )


def _refused(field: str, value: object, allowed: str) -> ConfigError:
    return ConfigError("fake-node", [FieldError(field, value, allowed)])
