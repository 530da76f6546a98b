"""Reading a chat answer that is not streamed: one JSON object, whose tokens come all at once."""

from __future__ import annotations

import json
from typing import Any

from isocost.bench.result import FailureKind
from isocost.bench.sse import TEXT_KEYS, token_count

#: No answer is nearly as long: 100,000 tokens are some 400 KB, with log probabilities some 10 MB.
#: What is longer would otherwise be kept until its end.
_MAX_BODY = 16 << 20


class WholeAnswerReader:
    """Eats the bytes of an OpenAI-style chat completion; what it says is known after ``end``."""

    #: When tokens came does not show.
    first_token_s: float | None = None
    last_token_s: float | None = None
    chunks = 0

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0
        self.failure: FailureKind | None = "truncated"
        #: The body, or its first piece, where it is a failure.
        self.bad_event = b""
        #: Its system_fingerprint: fake nodes say there who answers.
        self.node: str | None = None
        #: None where there is no usage.
        self.output_tokens: int | None = None

    def feed(self, data: bytes, now_s: float) -> None:  # noqa: ARG002  no token shows
        """Take bytes; the body may be cut anywhere."""
        self._bytes += len(data)
        if self._bytes <= _MAX_BODY:
            self._pieces.append(data)
        else:
            # Of what is left out only the beginning is of use.
            del self._pieces[1:]

    def end(self, now_s: float) -> None:  # noqa: ARG002  no token shows
        """The body is complete."""
        body = b"".join(self._pieces).strip()
        if self._bytes > _MAX_BODY:
            self.failure, self.bad_event = "bad_event", body
            return
        try:
            self._read(json.loads(body))
            self.failure = None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.failure = "truncated" if _is_cut(body, error) else "bad_event"
            self.bad_event = body

    def _read(self, answer: Any) -> None:
        """Take what the answer says; the errors that ``end`` catches: it is none."""
        if answer.get("error") is not None:
            raise ValueError
        choices = answer["choices"]
        if not isinstance(choices, list) or not choices:
            raise ValueError
        for choice in choices:
            message = choice["message"]
            texts = [message.get(key) for key in TEXT_KEYS]
            if not all(text is None or isinstance(text, str) for text in texts):
                raise TypeError
        usage = answer.get("usage")
        if usage is not None:
            self.output_tokens = token_count(usage["completion_tokens"])
        fingerprint = answer.get("system_fingerprint")
        if isinstance(fingerprint, str) and fingerprint:
            self.node = fingerprint


def _is_cut(body: bytes, error: Exception) -> bool:
    """Whether a body that is no answer is empty or the beginning of a JSON object."""
    if not body:
        return True
    if not body.startswith(b"{"):
        return False
    if not body.endswith(b"}"):
        return True
    # That brace ends an inner object, or stands in a text.
    return isinstance(error, json.JSONDecodeError) and (
        error.pos == len(error.doc) or error.msg.startswith("Unterminated string")
    )
