"""The models that a fake node can pretend to serve, as their published configurations tell them."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.errors import ConfigError, FieldError

#: bf16 or fp16: weights and KV cache alike.
BYTES_PER_VALUE = 2


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A dense decoder. ``kv_heads`` < ``attention_heads``: grouped-query attention."""

    name: str
    parameters: int
    layers: int
    hidden_size: int
    attention_heads: int
    kv_heads: int
    vocabulary: int
    max_length_tokens: int

    @property
    def weight_bytes(self) -> int:
        return self.parameters * BYTES_PER_VALUE

    @property
    def step_parameters(self) -> int:
        """Those that every token meets: all but the input embedding, of which it reads one row."""
        return self.parameters - self.vocabulary * self.hidden_size

    @property
    def kv_bytes_per_token(self) -> int:
        """A key and a value for each KV head of each layer."""
        head_size = self.hidden_size // self.attention_heads
        return self.layers * self.kv_heads * head_size * 2 * BYTES_PER_VALUE


# Counts from the models' own configuration files; lengths without position scaling beyond them.
MODELS = {
    model.name: model
    for model in (
        ModelSpec("llama-3.1-8b", 8_030_000_000, 32, 4096, 32, 8, 128_256, 131_072),
        ModelSpec("llama-3.1-70b", 70_550_000_000, 80, 8192, 64, 8, 128_256, 131_072),
        ModelSpec("llama2-7b", 6_740_000_000, 32, 4096, 32, 32, 32_000, 4096),
        ModelSpec("llama2-70b", 68_980_000_000, 80, 8192, 64, 8, 32_000, 4096),
        ModelSpec("qwen-72b", 72_290_000_000, 80, 8192, 64, 64, 152_064, 32_768),
        ModelSpec("qwen2.5-7b", 7_620_000_000, 28, 3584, 28, 4, 152_064, 32_768),
        ModelSpec("qwen2.5-32b", 32_760_000_000, 64, 5120, 40, 8, 152_064, 32_768),
        ModelSpec("qwen2.5-72b", 72_710_000_000, 80, 8192, 64, 8, 152_064, 32_768),
    )
}


def model_named(name: str) -> ModelSpec:
    """ConfigError: no such model; it lists those that there are."""
    model = MODELS.get(name)
    if model is None:
        allowed = f"must be one of {', '.join(MODELS)}"
        raise ConfigError("fake-node", [FieldError("--model", name, allowed)])
    return model
