"""Constants fitted to measurements; docs/fake-node.md has the errors of every point."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from isocost.fake.models import ModelSpec
from isocost.fake.roofline import roofline_speed
from isocost.fake.speeds import Speed


def _splitwise(
    front_ms: float,
    step_ms: float,
    sequence_ms: float,
    context_ns: float,
    token_ms: float,
    pair_ns: float,
    hidden_ms: float,
    chunk_ms: float,
    crowded: tuple[float, float],
) -> Speed:
    """``crowded``: the work in ms from which on it takes longer, and by which share."""
    return Speed(
        frontend_s=front_ms / 1e3,
        step_s=step_ms / 1e3,
        sequence_s=sequence_ms / 1e3,
        context_s=context_ns / 1e9,
        token_s=token_ms / 1e3,
        pair_s=pair_ns / 1e9,
        hidden_s=hidden_ms / 1e3,
        chunk_s=chunk_ms / 1e3,
        crowded_after_s=crowded[0] / 1e3,
        crowded_share=crowded[1],
    )


#: By GPU kind, model and number of GPUs.
#:
#: Llama2-70B: Splitwise's medians (github.com/Mutinifni/splitwise-sim, MIT), an engine of 2023.
#: The largest error over prompts of 128 to 8,192 tokens and batches of 1 to 64 made smallest by
#: random search; context and pair are those of the roofline. Its prompt times bend upwards
#: (crowded), and on the A100 several prompts take longer than one of their length (chunk).
#:
#: Llama-3.1-8B: vLLM 0.11 on one H100 (github.com/kubernetes-sigs/inference-perf, Apache-2.0,
#: demos/kubecon-na-2025), the sweeps without and with prefix caching, fitted in the same way to
#: what the whole engine gives under their loads.
MEASURED: Mapping[tuple[str, str, int], Speed] = MappingProxyType(
    {
        ("H100", "llama-3.1-8b", 1): Speed(
            frontend_s=18.2e-3,
            step_s=7.2e-3,
            sequence_s=21.5e-6,
            context_s=65e-9,
            token_s=23.4e-6,
            pair_s=1.3e-9,
            hidden_s=2.82e-3,
        ),
        ("H100", "llama2-70b", 2): _splitwise(12, 36.8, 0.38, 81.5, 0.129, 3.3, 29, 0, (186, 0.16)),
        ("H100", "llama2-70b", 4): _splitwise(
            21, 28.2, 0.31, 40.8, 0.0784, 1.66, 28.2, 0, (118, 0.43)
        ),
        ("H100", "llama2-70b", 8): _splitwise(
            25, 29.3, 0.32, 20.4, 0.0555, 0.83, 29.3, 0, (112, 0.88)
        ),
        ("A100", "llama2-70b", 2): _splitwise(
            7, 55.7, 0.54, 134, 0.284, 10.5, 55.7, 36, (129, 0.12)
        ),
        ("A100", "llama2-70b", 4): _splitwise(
            9, 42.9, 0.36, 67, 0.1745, 5.25, 42.9, 29, (358, 0.53)
        ),
        ("A100", "llama2-70b", 8): _splitwise(
            17, 43.6, 0.36, 33.5, 0.119, 2.63, 43.6, 14.5, (324, 0.77)
        ),
    }
)


def speed_of(kind: str, model: ModelSpec, count: int) -> Speed:
    """Measured constants where there are some, else the roofline's."""
    measured = MEASURED.get((kind, model.name, count))
    return roofline_speed(kind, model, count) if measured is None else measured
