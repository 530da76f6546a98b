"""The metrics page of Text Generation Inference as an EngineSample.

It has no gauge of its KV cache, and counts tokens when a request ends. A series appears when it is
first written: the page of a server that served nothing yet is empty.
"""

from __future__ import annotations

from isocost.errors import TelemetryError
from isocost.model import UNSUPPORTED, EngineSample
from isocost.telemetry.engines.exposition import PageReader
from isocost.telemetry.engines.histogram import LatencyNames
from isocost.telemetry.engines.page import (
    EnginePage,
    has_series,
    or_unsupported,
    series,
    started,
    total,
    usable,
)

PREFIXES = ("tgi_",)
RUNNING = ("tgi_batch_current_size",)
WAITING = ("tgi_queue_size",)
#: Lengths of the requests that ended: their sums are the tokens.
PROMPT_TOKENS = ("tgi_request_input_length_sum",)
GENERATION_TOKENS = ("tgi_request_generated_tokens_sum",)
#: Runs of the model, by the label method: prefill or decode.
STEPS = ("tgi_batch_inference_count",)
STARTED = ("process_start_time_seconds",)
#: There is none of the first token, and the one per token is a request's mean, prefill included.
LATENCIES = LatencyNames(
    first_token=(),
    per_token=("tgi_request_mean_time_per_token_duration",),
    queue=("tgi_request_queue_duration",),
    request=("tgi_request_duration",),
)
_READER = PageReader((*RUNNING, *WAITING, *PROMPT_TOKENS, *GENERATION_TOKENS, *STEPS, *STARTED))


def read_page(page: str) -> EnginePage:
    """TelemetryError: the page has nothing of TGI's."""
    if not has_series(page, PREFIXES):
        raise TelemetryError("not a TGI metrics page")
    found = _READER.read(page)
    return EnginePage(
        EngineSample(
            running=total(usable(series(found, RUNNING))),
            waiting=total(usable(series(found, WAITING))),
            kv_usage=UNSUPPORTED,
            kv_pool_tokens=UNSUPPORTED,
            prompt_tokens_total=total(usable(series(found, PROMPT_TOKENS))),
            generation_tokens_total=total(usable(series(found, GENERATION_TOKENS))),
            # Never absent: that would leave it to the tokens whether the engine works.
            steps_total=or_unsupported(total(usable(series(found, STEPS)))),
        ),
        started(series(found, STARTED)),
        "tgi",
    )
