"""The completion requests that a fake node understands, checked as an engine checks them."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.fake.strict import (
    BadRequestError,
    Json,
    boolean,
    integer,
    number,
    parse_object,
    refuse,
)

#: English text has about this many bytes a token in today's tokenizers.
BYTES_PER_TOKEN = 4
#: Role marks and separators of a chat template.
TOKENS_PER_MESSAGE = 4
#: Answers without max_tokens: OpenAI's default for completions, a short answer for chats.
DEFAULT_MAX_TOKENS = {"completion": 16, "chat": 128}
MAX_DELAY_S = 3600.0


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What the engine needs of a request; its answer has exactly ``output_tokens``."""

    chat: bool
    prompt_tokens: int
    output_tokens: int
    stream: bool
    include_usage: bool
    first_token_delay_s: float


def parse_request(body: bytes, chat: bool, model: str, max_length_tokens: int) -> CompletionRequest:
    """BadRequestError: 400 naming the field, or 404 for another model."""
    data = parse_object(body)
    asked = data.get("model", model)
    if asked != model:
        raise BadRequestError(404, f"The model `{asked}` does not exist.", "model")
    if integer(data, "n", 1, 128, 1) != 1:
        refuse("n", data["n"], "a fake node gives one answer to a request")
    prompt_tokens = _chat_tokens(data) if chat else _prompt_tokens(data)
    output_tokens = _output_tokens(data, chat)
    if prompt_tokens + output_tokens > max_length_tokens:
        raise BadRequestError(
            400,
            f"This model's maximum context length is {max_length_tokens} tokens; requested are "
            f"{prompt_tokens} in the prompt and {output_tokens} for the answer.",
            "messages" if chat else "prompt",
        )
    stream = boolean(data, "stream")
    return CompletionRequest(
        chat=chat,
        prompt_tokens=prompt_tokens,
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


def _prompt_tokens(data: Json) -> int:
    prompt = data.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return _text_tokens(prompt)
    if not isinstance(prompt, list) or not prompt or any(type(item) is not int for item in prompt):
        refuse("prompt", prompt, "must be a text or a list of token numbers")
    return len(prompt)


def _chat_tokens(data: Json) -> int:
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        refuse("messages", messages, "must be a list of at least one message")
    return sum(_message_tokens(f"messages.{i}", item) for i, item in enumerate(messages))


def _message_tokens(field: str, message: object) -> int:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        refuse(field, message, "must be an object with a role")
    content = message.get("content")
    if content is None:
        return TOKENS_PER_MESSAGE
    if isinstance(content, str):
        return TOKENS_PER_MESSAGE + _text_tokens(content)
    if not isinstance(content, list):
        refuse(f"{field}.content", content, "must be a text or a list of parts")
    total = TOKENS_PER_MESSAGE
    for i, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("text", ""), str):
            refuse(f"{field}.content.{i}", part, "must be an object; its text must be a string")
        total += _text_tokens(part.get("text", ""))
    return total


def _text_tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return max(1, -(-size // BYTES_PER_TOKEN))
