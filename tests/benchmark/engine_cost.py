"""What the fake engines of a fleet cost of a core: 32 nodes, 300 requests/s in all, 60 s of theirs.

    PYTHONPATH=.:control_plane python -m tests.benchmark.engine_cost

Without HTTP. Printed, not judged: the share is CPU time over virtual time.
"""

from __future__ import annotations

import random
import time

from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from isocost.fake.prefix import piece_hashes
from isocost.fake.sequence import Prompt, coarse_marks

NODES = 32
REQUESTS_PER_S = 300
DURATION_S = 60.0


def cost(chunks: int, requests_per_s: float, prompt_tokens: int, output_tokens: int) -> None:
    """Drive the engines as their drivers do: advance at every wake, submit at every arrival."""
    choose = random.Random(1)
    hardware = Hardware("H100", 1, model_named("llama-3.1-8b"))
    engines = [Engine(hardware.speed, hardware.kv_blocks, 128) for _ in range(NODES)]
    text = choose.randbytes(4 * prompt_tokens)
    requests = wakes = now_s = 0.0
    begun_s = time.process_time()
    while (now_s := now_s + choose.expovariate(requests_per_s)) < DURATION_S:
        engine = engines[choose.randrange(NODES)]
        while (wake_s := engine.next_wake_s()) is not None and wake_s <= now_s:
            engine.advance(wake_s)
            wakes += 1
        engine.advance(now_s)
        own = choose.randbytes(16) + text[16:]
        prompt = Prompt(prompt_tokens, piece_hashes(own))
        output = max(1, int(choose.expovariate(1 / output_tokens)))
        engine.submit(now_s, prompt, coarse_marks(output, chunks))
        requests += 1
    cpu_s = time.process_time() - begun_s
    print(
        f"{chunks} pieces, {requests_per_s}/s of {prompt_tokens} + {output_tokens} tokens: "
        f"{cpu_s / DURATION_S:.1%} of a core, {cpu_s / requests * 1e6:.0f} us a request, "
        f"{wakes / DURATION_S:.0f} wakes/s"
    )


if __name__ == "__main__":
    cost(8, REQUESTS_PER_S, 1000, 200)
    cost(8, REQUESTS_PER_S * 10, 200, 60)
    cost(10**6, REQUESTS_PER_S / 10, 1000, 200)
    cost(8, REQUESTS_PER_S / 10, 12_000, 300)
