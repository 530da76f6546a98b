"""The answers of a fake node in OpenAI's shapes: whole, as events, and errors."""

from __future__ import annotations

import functools
import json
import random
import time
from collections.abc import Mapping
from http.client import responses

from isocost.fake.hardware import Hardware
from isocost.fake.prompt import BYTES_PER_TOKEN
from isocost.fake.requests import CompletionRequest

DONE = b"data: [DONE]\n\n"
#: Enough text for most answers without building it again; longer ones repeat it.
_TEXT_TOKENS = 4096
#: vLLM's names of what it refuses itself; any other status goes by its phrase.
_ERROR_TYPES = {
    400: "BadRequestError",
    404: "NotFoundError",
    413: "BadRequestError",
    500: "InternalServerError",
}
_GOES_ON = b',"logprobs":null,"finish_reason":null}]}\n\n'
_ENDS = b',"logprobs":null,"finish_reason":"length"}]}\n\n'


@functools.cache
def fake_text(seed: int) -> str:
    """Words of four bytes with their space, one token each, that JSON need not escape."""
    choose = random.Random(seed)
    words = ("the", "sun", "and", "sea", "are", "old", "but", "our", "day", "has", "not", "set")
    return "".join(f"{choose.choice(words)} " for _ in range(_TEXT_TOKENS))


class Answer:
    """Builds the answer to one request. ``node`` shows as system_fingerprint: who served it."""

    def __init__(self, request: CompletionRequest, number: int, node: str, text: str):
        self._request = request
        self._text = text
        self._told = 0
        kind = "chat.completion" if request.chat else "text_completion"
        self._head: dict[str, object] = {
            "id": f"{'chatcmpl' if request.chat else 'cmpl'}-{node}-{number}",
            "object": f"{kind}.chunk" if request.chat and request.stream else kind,
            "created": int(time.time()),
            "model": request.model,
            "system_fingerprint": node,
        }
        #: Events differ in their text only: what comes before it is built once, and by hand.
        self._before = b"data: " + _dump(self._head)[:-1] + b',"choices":[{"index":0,'

    def whole(self, cached_tokens: int) -> bytes:
        """``cached_tokens`` of the prompt were found in the prefix cache."""
        tokens = self._request.output_tokens
        text = self._between(0, tokens)
        content = (
            {"message": {"role": "assistant", "content": text}}
            if self._request.chat
            else {"text": text}
        )
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": "length"}
        usage = self._usage(tokens, cached_tokens)
        return _dump({**self._head, "choices": [choice], "usage": usage})

    def event(self, tokens: int) -> bytes:
        """The event that brings a streamed answer to ``tokens``."""
        return self._event(tokens, _GOES_ON)

    def last_event(self, cached_tokens: int) -> bytes:
        """The event that ends the answer, and what closes the stream."""
        tokens = self._request.output_tokens
        data = self._event(tokens, _ENDS)
        if self._request.include_usage:
            usage = self._usage(tokens, cached_tokens)
            data += _event({**self._head, "choices": [], "usage": usage})
        return data + DONE

    def _event(self, tokens: int, after: bytes) -> bytes:
        piece = self._between(self._told, tokens).encode()
        first, self._told = self._told == 0, tokens
        if not self._request.chat:
            return b'%b"text":"%b"%b' % (self._before, piece, after)
        role = b'"role":"assistant",' if first else b""
        return b'%b"delta":{%b"content":"%b"}%b' % (self._before, role, piece, after)

    def _between(self, first: int, last: int) -> str:
        """The text of the answer from one token to another."""
        start = first * BYTES_PER_TOKEN % len(self._text)
        end = start + (last - first) * BYTES_PER_TOKEN
        return (self._text * (1 + end // len(self._text)))[start:end]

    def _usage(self, tokens: int, cached_tokens: int) -> dict[str, object]:
        prompt = self._request.prompt.tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        }


def error_body(status: int, message: str, field: str | None = None) -> bytes:
    return _dump(_error(status, message, field))


def error_events(status: int, message: str) -> bytes:
    """How vLLM ends a stream whose head is gone already."""
    return _event(_error(status, message, None)) + DONE


def model_list(served: Mapping[str, Hardware]) -> bytes:
    """``root`` is the model that is served under a name."""
    entries = [
        {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "isocost",
            "root": hardware.model.name,
            "max_model_len": hardware.max_length_tokens,
        }
        for name, hardware in served.items()
    ]
    return _dump({"object": "list", "data": entries})


def _error(status: int, message: str, field: str | None) -> dict[str, object]:
    kind = _ERROR_TYPES.get(status) or responses.get(status, "Error")
    return {"error": {"message": message, "type": kind, "param": field, "code": status}}


def _event(data: dict[str, object]) -> bytes:
    return b"data: " + _dump(data) + b"\n\n"


def _dump(data: dict[str, object]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
