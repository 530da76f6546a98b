"""The completion requests that a fake node understands, checked as an engine checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isocost.fake.prompt import read_prompt
from isocost.fake.sequence import Prompt
from isocost.fake.strict import (
    BadRequestError,
    Json,
    boolean,
    integer,
    number,
    parse_object,
    refuse,
)

#: Answers without max_tokens: OpenAI's default for completions, a short answer for chats.
DEFAULT_MAX_TOKENS = {"completion": 16, "chat": 128}
MAX_DELAY_S = 3600.0


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What the engine needs of a request; its answer has exactly ``output_tokens``."""

    chat: bool
    #: As the request names it.
    model: str
    prompt: Prompt
    output_tokens: int
    stream: bool
    include_usage: bool
    first_token_delay_s: float


def parse_request(
    body: bytes, chat: bool, max_length_tokens: Mapping[str, int]
) -> CompletionRequest:
    """``max_length_tokens`` by served model; without a name the first one answers.

    BadRequestError: 400 naming the field, or 404 for another model.
    """
    data = parse_object(body)
    asked = data.get("model", next(iter(max_length_tokens)))
    if not isinstance(asked, str) or asked not in max_length_tokens:
        raise BadRequestError(404, f"The model `{asked}` does not exist.", "model")
    if integer(data, "n", 1, 128, 1) != 1:
        refuse("n", data["n"], "a fake node gives one answer to a request")
    output_tokens = _output_tokens(data, chat)

    def check_length(prompt_tokens: int) -> None:
        longest = max_length_tokens[asked]
        if prompt_tokens + output_tokens > longest:
            raise BadRequestError(
                400,
                f"This model's maximum context length is {longest} tokens; requested "
                f"are {prompt_tokens} in the prompt and {output_tokens} for the answer.",
                "messages" if chat else "prompt",
            )

    prompt = read_prompt(data, chat, check_length)
    stream = boolean(data, "stream")
    return CompletionRequest(
        chat=chat,
        model=asked,
        prompt=prompt,
        output_tokens=output_tokens,
        stream=stream,
        include_usage=_include_usage(data, stream),
        first_token_delay_s=number(data, "fake_first_token_delay_s", 0, MAX_DELAY_S, 0.0),
    )


def _output_tokens(data: Json, chat: bool) -> int:
    default = DEFAULT_MAX_TOKENS["chat" if chat else "completion"]
    if chat and data.get("max_completion_tokens") is not None:
        return integer(data, "max_completion_tokens", 1, 2**31, default)
    return integer(data, "max_tokens", 1, 2**31, default)


def _include_usage(data: Json, stream: bool) -> bool:
    options = data.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        refuse("stream_options", options, "must be an object")
    if not stream:
        refuse("stream_options", options, "is only for stream = true")
    return boolean(options, "include_usage")
