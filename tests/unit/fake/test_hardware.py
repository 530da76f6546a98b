"""What a fake node's cards hold, and what they refuse to."""

from __future__ import annotations

import pytest

from isocost.errors import ConfigError
from isocost.fake.cards import CARDS, MIB
from isocost.fake.hardware import Hardware
from isocost.fake.kv_cache import BLOCK_TOKENS
from isocost.fake.models import MODELS, model_named

LLAMA_8B = model_named("llama-3.1-8b")
LLAMA_70B = model_named("llama-3.1-70b")


def refusal(kind: str, count: int, model: str) -> str:
    with pytest.raises(ConfigError) as caught:
        Hardware(kind, count, model_named(model))
    return str(caught.value)


def test_an_8b_on_one_h100_holds_what_vllm_prints() -> None:
    assert Hardware("H100", 1, LLAMA_8B).kv_pool_tokens == pytest.approx(440_000, rel=0.01)


@pytest.mark.parametrize(
    ("name", "weight_gb", "kv_bytes"),
    [
        ("llama-3.1-8b", 16.06, 131_072),
        ("llama2-7b", 13.48, 524_288),
        ("llama2-70b", 137.96, 327_680),
        ("llama-3.1-70b", 141.1, 327_680),
        ("qwen-72b", 144.58, 2_621_440),
        ("qwen2.5-7b", 15.24, 57_344),
        ("qwen2.5-32b", 65.52, 262_144),
        ("qwen2.5-72b", 145.42, 327_680),
    ],
)
def test_weights_and_kv_bytes_are_those_of_the_model(
    name: str, weight_gb: float, kv_bytes: int
) -> None:
    model = model_named(name)
    assert model.weight_bytes == pytest.approx(weight_gb * 1e9, rel=1e-3)
    assert model.kv_bytes_per_token == kv_bytes


def test_every_model_is_checked_above() -> None:
    assert len(MODELS) == 8


@pytest.mark.parametrize("kind", CARDS)
@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_memory_is_never_given_out_twice(kind: str, model: object) -> None:
    for count in (1, 2, 4, 8):
        try:
            hardware = Hardware(kind, count, model)  # type: ignore[arg-type]
        except ConfigError:
            continue
        pool_bytes = hardware.kv_pool_tokens * hardware.model.kv_bytes_per_token
        free_bytes = hardware.vram_free_bytes * count
        reserved_bytes = hardware.card.reserved_bytes * count
        total_bytes = hardware.card.vram_total_bytes * count
        taken_bytes = pool_bytes + hardware.model.weight_bytes + free_bytes + reserved_bytes
        assert 0 < total_bytes - taken_bytes < 3.1e9 * count
        assert hardware.kv_blocks * BLOCK_TOKENS == hardware.kv_pool_tokens > 0


def test_more_cards_hold_more_kv() -> None:
    pools = [Hardware("A100", count, LLAMA_70B).kv_pool_tokens for count in (2, 4, 8)]
    assert pools[0] * 10 < pools[1] < pools[2]


def test_a_model_that_does_not_fit_is_refused_with_what_would() -> None:
    assert refusal("H100", 1, "llama-3.1-70b") == (
        "fake-node: --gpu-count: 1 is not allowed; llama-3.1-70b does not fit 1 x H100: its "
        "weights take 141 GB and 2048 tokens of KV cache 0.7 GB, the engine may use 74 GB; it fits "
        "2 x H100, 4 x H100, 8 x H100, 2 x A100, 4 x A100, 8 x A100"
    )
    # Its weights fit two cards, but their KV cache of 64 heads does not.
    assert "it fits 4 x H100, 8 x H100, 4 x A100" in refusal("H100", 2, "qwen-72b")


@pytest.mark.parametrize("count", [0, 3, 16])
def test_a_count_that_no_tensor_parallel_group_has_is_refused(count: int) -> None:
    assert f"--gpu-count: {count} is not allowed; must be one of 1, 2, 4, 8" in refusal(
        "H100", count, "llama-3.1-8b"
    )


def test_a_count_that_does_not_divide_the_heads_is_refused() -> None:
    assert "must be one of 1, 2, 4: qwen2.5-7b has 28 attention heads" in refusal(
        "H100", 8, "qwen2.5-7b"
    )


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    assert "--gpu-kind: 'H200' is not allowed; must be one of H100, A100" in refusal(
        "H200", 1, "llama-3.1-8b"
    )
    with pytest.raises(ConfigError, match=r"'gpt-2' is not allowed; must be one of llama-3.1-8b, "):
        model_named("gpt-2")


def test_cards_tell_the_facts_of_their_data_sheets() -> None:
    h100, a100 = CARDS["H100"], CARDS["A100"]
    assert h100.vram_total_bytes == 81_559 * MIB and h100.reserved_bytes == 479 * MIB
    assert h100.nvlink_bytes_per_s == pytest.approx(18 * 26.562e9)
    assert a100.nvlink_bytes_per_s == pytest.approx(12 * 25e9)
    for card in CARDS.values():
        assert card.idle_w < card.loaded_w < card.serving_w < card.limit_w
