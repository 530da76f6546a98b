"""Reading a streamed chat answer: when its tokens came, how many, and whether it is whole."""

from __future__ import annotations

import json


class AnswerReader:
    """Eats the bytes of an OpenAI-style event stream as they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._done = False
        self._bad_event = False
        #: Events that carried text.
        self.chunks = 0
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        #: From the usage event; None until it came.
        self.output_tokens: int | None = None

    @property
    def failure(self) -> str | None:
        """What is wrong with the answer if the stream ends here; None = nothing."""
        if self._bad_event:
            return "bad_event"
        return None if self._done else "truncated"

    def feed(self, data: bytes, now_s: float) -> None:
        """Take bytes that arrived at ``now_s``; events may be cut anywhere."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip(), now_s)

    def _event(self, payload: bytes, now_s: float) -> None:
        if payload == b"[DONE]":
            self._done = True
            return
        try:
            event = json.loads(payload)
            if "error" in event:
                self._bad_event = True
                return
            usage = event.get("usage")
            if usage is not None:
                self.output_tokens = int(usage["completion_tokens"])
            has_text = any(choice["delta"].get("content") for choice in event.get("choices", ()))
        except (ValueError, TypeError, KeyError, AttributeError):
            self._bad_event = True
            return
        if has_text:
            self.chunks += 1
            self.last_token_s = now_s
            if self.first_token_s is None:
                self.first_token_s = now_s
