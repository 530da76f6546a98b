"""Reading a streamed chat answer: when its tokens came, how many, and whether it is whole."""

from __future__ import annotations

import json
import re

from isocost.bench.result import FailureKind

#: Keys of a delta or a message that hold generated text: reasoning models think before they
#: answer, and their first token is then one of thinking.
TEXT_KEYS = ("content", "reasoning_content", "reasoning")
#: Streams of fewer events with text are read faster without a template.
_LEARN_FROM = 8
_MARK = re.compile(rb'"content": ?"')
#: No event of a chat is nearly as long; what is would otherwise be kept until its end.
_MAX_LINE = 1 << 20
#: More is a mistake, and no sum of it fits a float.
_MOST_TOKENS = 10**9
#: Text that JSON writes as it is.
_PLAIN = re.compile(rb"[ !#-\[\]-~]+")


class AnswerReader:
    """Eats the bytes of an OpenAI-style event stream as they come.

    Each event is one ``data:`` line, as all such servers write them.
    """

    def __init__(self) -> None:
        #: The unfinished last line, in the pieces that it came in.
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._done = False
        #: An event had a choice, be it an empty one: models may have nothing to say.
        self._answered = False
        self._bad_event = False
        #: The first event that is a failure, as far as it was kept.
        self.bad_event = b""
        #: What stands before and after the text of an event that only differs in its text.
        self._before = self._after = b""
        #: Events that carried text.
        self.chunks = 0
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        #: The first system_fingerprint of an event: fake nodes say there who answers.
        self.node: str | None = None
        #: From the usage event; None until it came.
        self.output_tokens: int | None = None
        #: The same; None where it does not tell.
        self.input_tokens: int | None = None

    @property
    def failure(self) -> FailureKind | None:
        """What is wrong with the answer if the stream ends here; None = nothing."""
        if self._bad_event:
            return "bad_event"
        return None if self._done else "truncated"

    def feed(self, data: bytes, now_s: float) -> None:
        """Take bytes that arrived at ``now_s``; events may be cut anywhere."""
        first, *more = data.split(b"\n")
        self._keep(first)
        if not more:
            return
        lines = [b"".join(self._rest), *more[:-1]]
        self._rest, self._rest_bytes = [], 0
        self._keep(more[-1])
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip(), now_s)

    def end(self, now_s: float) -> None:
        """The stream is complete; its last line may lack its end."""
        self.feed(b"\n", now_s)

    def _keep(self, piece: bytes) -> None:
        """Add to the unfinished line, unless that is too long."""
        self._rest_bytes += len(piece)
        if self._rest_bytes > _MAX_LINE:
            self._bad(self._rest[0] if self._rest else piece)
            self._rest.clear()
        else:
            self._rest.append(piece)

    def _event(self, payload: bytes, now_s: float) -> None:
        if payload == b"[DONE]":
            self._done = True
            if not self._answered:
                self._bad(b"[DONE] without an answer before it")
            return
        if self._fits_template(payload) or self._read(payload):
            self.chunks += 1
            self.last_token_s = now_s
            if self.first_token_s is None:
                self.first_token_s = now_s
            if self.chunks == _LEARN_FROM:
                self._learn(payload)

    def _read(self, payload: bytes) -> bool:
        """Take what the event says; whether it carries text."""
        try:
            event = json.loads(payload)
            if event.get("error") is not None:
                self._bad(payload)
                return False
            usage = event.get("usage")
            if usage is not None:
                self.output_tokens = token_count(usage["completion_tokens"])
                if usage.get("prompt_tokens") is not None:
                    self.input_tokens = token_count(usage["prompt_tokens"])
            fingerprint = event.get("system_fingerprint")
            if self.node is None and isinstance(fingerprint, str) and fingerprint:
                self.node = fingerprint
            deltas = [choice["delta"] for choice in event.get("choices", ())]
            texts = [delta.get(key) for delta in deltas for key in TEXT_KEYS]
            if not all(text is None or isinstance(text, str) for text in texts):
                raise TypeError
            self._answered = self._answered or bool(deltas)
            return any(texts)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._bad(payload)
            return False

    def _bad(self, payload: bytes) -> None:
        self._bad_event = True
        self.bad_event = self.bad_event or payload

    def _fits_template(self, payload: bytes) -> bool:
        """Whether the event is the learned one with another plain text: it says nothing else."""
        if not self._before or not payload.startswith(self._before):
            return False
        end = len(payload) - len(self._after)
        return (
            payload.endswith(self._after)
            and _PLAIN.fullmatch(payload, len(self._before), end) is not None
        )

    def _learn(self, payload: bytes) -> None:
        """Make a template of the event, if its text stands where another text could."""
        mark = _MARK.search(payload)
        text = mark and _PLAIN.match(payload, mark.end())
        if mark is None or not text or payload[text.end() : text.end() + 1] != b'"':
            return
        before, after = payload[: mark.end()], payload[text.end() :]
        try:
            event = json.loads(before + b"other" + after)
            if event.get("usage") is None and event["choices"][0]["delta"]["content"] == "other":
                self._before, self._after = before, after
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return


def token_count(value: object) -> int:
    """TypeError, ValueError: no number of tokens."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    if not 0 <= value <= _MOST_TOKENS:
        raise ValueError
    return value
