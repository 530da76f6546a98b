"""The answers of a fake node in OpenAI's shapes: whole, as events, and errors."""

from __future__ import annotations

import json
import random
import time

from isocost.fake.requests import BYTES_PER_TOKEN, CompletionRequest

DONE = b"data: [DONE]\n\n"
#: Enough text for a piece of an answer without building it again; longer pieces repeat it.
_TEXT_TOKENS = 4096
_ERROR_TYPES = {400: "BadRequestError", 404: "NotFoundError", 413: "BadRequestError"}


def fake_text(seed: int) -> str:
    """Words of four bytes with their space: one token each by the count of this module."""
    choose = random.Random(seed)
    words = ("the", "sun", "and", "sea", "are", "old", "but", "our", "day", "has", "not", "set")
    return "".join(f"{choose.choice(words)} " for _ in range(_TEXT_TOKENS))


class Answer:
    """Builds the answer to one request. ``node`` shows as system_fingerprint: who served it."""

    def __init__(self, request: CompletionRequest, number: int, node: str, model: str, text: str):
        self._request = request
        self._text = text
        self._told = 0
        kind = "chat.completion" if request.chat else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if request.chat else 'cmpl'}-{node}-{number}",
            "object": f"{kind}.chunk" if request.chat and request.stream else kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": node,
        }

    def whole(self) -> bytes:
        tokens = self._request.output_tokens
        text = self._piece(tokens)
        content = (
            {"message": {"role": "assistant", "content": text}}
            if self._request.chat
            else {"text": text}
        )
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": "length"}
        return _dump({**self._head, "choices": [choice], "usage": self._usage(tokens)})

    def event(self, tokens: int, finished: bool) -> bytes:
        """The event that brings the answer to ``tokens``; the last one closes the stream."""
        piece = self._piece(tokens - self._told)
        if self._request.chat:
            role = {} if self._told else {"role": "assistant"}
            content: dict[str, object] = {"delta": {**role, "content": piece}}
        else:
            content = {"text": piece}
        self._told = tokens
        choice = {
            "index": 0,
            **content,
            "logprobs": None,
            "finish_reason": "length" if finished else None,
        }
        data = _event({**self._head, "choices": [choice]})
        if finished and self._request.include_usage:
            data += _event({**self._head, "choices": [], "usage": self._usage(tokens)})
        return data + DONE if finished else data

    def _piece(self, tokens: int) -> str:
        size = tokens * BYTES_PER_TOKEN
        return (self._text * (1 + size // len(self._text)))[:size]

    def _usage(self, tokens: int) -> dict[str, int]:
        prompt = self._request.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
        }


def error_body(status: int, message: str, field: str | None = None) -> bytes:
    kind = _ERROR_TYPES.get(status, "InternalServerError")
    return _dump({"error": {"message": message, "type": kind, "param": field, "code": status}})


def model_list(model: str, max_length_tokens: int) -> bytes:
    entry = {"id": model, "object": "model", "owned_by": "isocost", "root": model}
    return _dump({"object": "list", "data": [{**entry, "max_model_len": max_length_tokens}]})


def _event(data: dict[str, object]) -> bytes:
    return b"data: " + _dump(data) + b"\n\n"


def _dump(data: dict[str, object]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
