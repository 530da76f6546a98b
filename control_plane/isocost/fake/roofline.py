"""The speed of any model on any card by arithmetic, for the pairs that nobody measured."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.fake.cards import CARDS
from isocost.fake.models import BYTES_PER_VALUE, ModelSpec
from isocost.fake.speeds import Speed


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How much of a card's peaks its kernels reach, and what they cost beside that.

    ``layer_s``: launches and small kernels of a layer's linear operators; ``attention_s``: of its
    attention. ``elementwise_s``: norms and activations, for each token, layer and hidden value;
    every rank does all of them.
    """

    memory: float
    arithmetic: float
    layer_s: float
    attention_s: float
    elementwise_s: float


# Vidur's linear operators (github.com/microsoft/vidur, MIT) of 7B and 70B models on 1 to 8 cards
# lie on lines in weights / cards: for one token (memory, layer_s) and for 4,096 (arithmetic,
# elementwise_s). attention_s is what vLLM's time a token has above them: Llama-3.1-8B on an H100
# (inference-perf), Qwen2-7B on A100s (dennislee22/vLLM-benchmarking).
EFFICIENCY = {
    "H100": Efficiency(
        memory=0.86, arithmetic=0.65, layer_s=30e-6, attention_s=10e-6, elementwise_s=6.7e-12
    ),
    "A100": Efficiency(
        memory=0.78, arithmetic=0.74, layer_s=45e-6, attention_s=20e-6, elementwise_s=19e-12
    ),
}

#: HTTP and tokenizer, as with Llama-3.1-8B (inference-perf).
FRONTEND_S = 18e-3
#: Scheduler, sampler and output of one step, and of each sequence in it, above the operators: the
#: same two sources, at 1 sequence and at 50 to 256.
ENGINE_STEP_S = 0.7e-3
ENGINE_SEQUENCE_S = 10e-6
#: The share of a decoding sequence's arithmetic that does not hide behind the weights.
EXPOSED_SEQUENCE = 0.5
#: The share of the weights' reading that prompt work hides behind: Vidur's curves bend softly.
HIDING_SHARE = 0.75
#: Attention kernels against the card's peaks: prompts in arithmetic, KV cache in memory.
ATTENTION_ARITHMETIC = 0.4
KV_MEMORY = 0.6
#: An all-reduce of a few KB takes 7 to 38 us on a DGX H100 (Vidur), one of 64 MB runs at 42 % of
#: one direction of the NVLinks. Two of them a layer.
ALL_REDUCE_S = 30e-6
ALL_REDUCE_SHARE = 0.42


def roofline_speed(kind: str, model: ModelSpec, count: int) -> Speed:
    """Weights over memory bandwidth, operations over arithmetic, both over ``count`` cards."""
    card, efficiency = CARDS[kind], EFFICIENCY[kind]
    arithmetic_s = _arithmetic_s(kind, model, count)
    all_reduces = 2 * model.layers if count > 1 else 0
    token_bytes = model.hidden_size * BYTES_PER_VALUE
    # A pair: two products over the hidden values of a layer, with two operations each.
    pair_operations = 4 * model.layers * model.hidden_size
    return Speed(
        frontend_s=FRONTEND_S,
        step_s=linear_step_s(kind, model, count)
        + model.layers * efficiency.attention_s
        + all_reduces * ALL_REDUCE_S
        + ENGINE_STEP_S,
        sequence_s=arithmetic_s * EXPOSED_SEQUENCE + ENGINE_SEQUENCE_S,
        context_s=model.kv_bytes_per_token / (count * card.memory_bytes_per_s * KV_MEMORY),
        token_s=linear_token_s(kind, model, count)
        + all_reduces * token_bytes / (card.nvlink_bytes_per_s * ALL_REDUCE_SHARE),
        pair_s=pair_operations / (count * card.bf16_flops * ATTENTION_ARITHMETIC),
        hidden_s=hidden_s(kind, model, count),
    )


def linear_step_s(kind: str, model: ModelSpec, count: int) -> float:
    """The linear operators of one token: all weights are read."""
    return _weights_s(kind, model, count) + model.layers * EFFICIENCY[kind].layer_s


def linear_token_s(kind: str, model: ModelSpec, count: int) -> float:
    """The linear operators of a prompt token among many."""
    elementwise_s = model.layers * model.hidden_size * EFFICIENCY[kind].elementwise_s
    return _arithmetic_s(kind, model, count) + elementwise_s


def hidden_s(kind: str, model: ModelSpec, count: int) -> float:
    """The prompt work of a step that costs nothing."""
    return _weights_s(kind, model, count) * HIDING_SHARE


def _weights_s(kind: str, model: ModelSpec, count: int) -> float:
    bandwidth = count * CARDS[kind].memory_bytes_per_s * EFFICIENCY[kind].memory
    return model.step_parameters * BYTES_PER_VALUE / bandwidth


def _arithmetic_s(kind: str, model: ModelSpec, count: int) -> float:
    """Two operations for each parameter."""
    flops = count * CARDS[kind].bf16_flops * EFFICIENCY[kind].arithmetic
    return 2 * model.step_parameters / flops
