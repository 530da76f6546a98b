"""What a fake node pretends to be: GPU cards, an 8B model, and their measured speeds."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024

#: Llama-3.1-8B in bf16: 8.03e9 parameters; 32 layers x 8 KV heads x 128 x 2 (K, V) x 2 bytes.
WEIGHT_BYTES = 16_060_000_000
KV_BYTES_PER_TOKEN = 131_072
MAX_LENGTH_TOKENS = 131_072
#: vLLM's default block, and the share of a card that it takes at its start.
BLOCK_TOKENS = 16
MEMORY_UTILISATION = 0.9
#: Activations and CUDA graphs of one card: with it an H100 keeps the 440,000 tokens that vLLM
#: prints for this model.
ACTIVATION_BYTES = 3_000_000_000


@dataclass(frozen=True, slots=True)
class Speed:
    """A step lasts base + per_sequence * decoding sequences + prefill tokens / rate.

    ``frontend_s`` is the way through HTTP and tokenizer before the queue.
    """

    frontend_s: float
    step_base_s: float
    step_per_sequence_s: float
    prefill_tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU of a kind. ``reserved_bytes`` is what the driver keeps for itself."""

    vram_total_bytes: int
    reserved_bytes: int
    speed: Speed


# H100: fitted to kubernetes-sigs/inference-perf (Apache-2.0), demos/kubecon-na-2025, set-up "vllm":
# Llama-3.1-8B, one H100, --max-num-seqs=128, 204 tokens in and 62 out. Unloaded: first token after
# 31 ms, then 7.2 ms a token; at 103 requests/s 128 run at 20 ms a token. With its prompts cached
# (set-up "chunking_and_prefix_caching") it reaches 173 requests/s at 12 ms, so the prompts cost at
# least 0.019 ms a token; 40,000 tokens/s is 65 % of the card's peak.
# A100: the same card family in Splitwise (MIT) needs 2.0 times the H100's prefill time and 1.5
# times its step, Vidur's profiles (MIT) 2.8 and 1.7 times; chosen between: 2.5 and 1.7, which
# saturates near 48 requests/s.
CARDS = {
    "H100": Card(
        vram_total_bytes=81_559 * MIB,
        reserved_bytes=479 * MIB,
        speed=Speed(
            frontend_s=0.0187,
            step_base_s=0.00718,
            step_per_sequence_s=0.0000184,
            prefill_tokens_per_s=40_000,
        ),
    ),
    "A100": Card(
        vram_total_bytes=81_920 * MIB,
        reserved_bytes=479 * MIB,
        speed=Speed(
            frontend_s=0.0187,
            step_base_s=0.0122,
            step_per_sequence_s=0.000035,
            prefill_tokens_per_s=16_000,
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of one node, tensor-parallel when there are several."""

    kind: str
    count: int

    @property
    def card(self) -> Card:
        return CARDS[self.kind]

    @property
    def speed(self) -> Speed:
        """Splitwise's 70B prefill gains 1.5 times a doubling of cards; its step time nothing."""
        one = self.card.speed
        return Speed(
            one.frontend_s,
            one.step_base_s,
            one.step_per_sequence_s,
            one.prefill_tokens_per_s * self.count**0.58,
        )

    @property
    def kv_blocks(self) -> int:
        per_card = int(self.card.vram_total_bytes * MEMORY_UTILISATION) - ACTIVATION_BYTES
        return (per_card * self.count - WEIGHT_BYTES) // (KV_BYTES_PER_TOKEN * BLOCK_TOKENS)

    @property
    def kv_pool_tokens(self) -> int:
        return self.kv_blocks * BLOCK_TOKENS

    @property
    def vram_free_bytes(self) -> int:
        """Of one card, as NVML tells it: flat, because the engine reserves its share at start."""
        taken = int(self.card.vram_total_bytes * MEMORY_UTILISATION)
        return self.card.vram_total_bytes - self.card.reserved_bytes - taken
