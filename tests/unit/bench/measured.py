"""Results as a replay would leave them, for the arithmetic's tests."""

from isocost.bench.access_log import LoggedRequest
from isocost.bench.result import FailureKind, RequestResult


def answer(
    at_s: float = 0.0,
    ttft_ms: float = 100.0,
    *,
    e2e_ms: float | None = None,
    failure: FailureKind | None = None,
    status: int = 200,
    node: str | None = None,
    kind: str | None = None,
    request_id: str | None = None,
    output_tokens: int = 9,
    late_ms: float = 0.0,
) -> RequestResult:
    """An answer that takes twice its TTFT unless ``e2e_ms`` says otherwise."""
    end_s = at_s + (2 * ttft_ms if e2e_ms is None else e2e_ms) / 1e3
    return RequestResult(
        scheduled_s=at_s,
        sent_s=at_s + late_ms / 1e3,
        end_s=end_s,
        input_tokens=10,
        failure=failure,
        status=status,
        first_byte_s=at_s,
        first_token_s=at_s + ttft_ms / 1e3,
        last_token_s=end_s,
        chunks=4,
        output_tokens=output_tokens,
        request_id=request_id,
        node=node,
        kind=kind,
    )


def logged(
    node: str | None = "a",
    request_id: str | None = "r",
    attempts: int = 1,
    reason: str = "picked",
    age_ms: float | None = 80.0,
) -> LoggedRequest:
    return LoggedRequest(request_id, 200, node, "rack", attempts, reason, age_ms)
