"""Reading JSON bodies strictly: a refusal names the field, what was found and what is allowed."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn

from isocost.errors import FieldError, RejectedError

Json = dict[str, object]


class BadRequestError(RejectedError):
    """A request that is answered with ``status`` in OpenAI's error shape."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        self.status = status
        self.field = field
        super().__init__(message)


def refuse(field: str, value: object, allowed: str) -> NoReturn:
    raise BadRequestError(400, str(FieldError(field, value, allowed)), field)


@contextmanager
def inside(place: str) -> Iterator[None]:
    """What is refused within is named by its path from the top."""
    try:
        yield
    except BadRequestError as error:
        path = f"{place}.{error.field}"
        raise BadRequestError(error.status, f"{place}.{error}", path) from error


def parse_json(body: bytes) -> object:
    """Any JSON; NaN and Infinity, which JSON does not have, are refused."""
    try:
        return json.loads(body, parse_constant=lambda word: refuse("(body)", word, "not JSON"))
    except (ValueError, RecursionError) as error:
        raise BadRequestError(400, f"the body is not JSON: {error}", "(body)") from error


def parse_object(body: bytes) -> Json:
    data = parse_json(body)
    if not isinstance(data, dict):
        refuse("(body)", type(data).__name__, "must be a JSON object")
    return data


def known_keys(data: Json, known: Collection[str]) -> None:
    for key in data:
        if key not in known:
            refuse(key, data[key], "unknown key; known here: " + ", ".join(sorted(known)))


def number(data: Json, field: str, low: float, high: float, default: float | None = None) -> float:
    """Without a default the number is needed."""
    value = data.get(field)
    if value is None and default is not None:
        return default
    return checked_number(field, value, low, high)


def checked_number(field: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(field, value, _range("a number", low, high))
    if not low <= value <= high:
        refuse(field, value, _range("a number", low, high))
    return float(value)


def integer(data: Json, field: str, low: int, high: int, default: int | None = None) -> int:
    """Without a default the number is needed."""
    value = data.get(field)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        refuse(field, value, _range("an integer", low, high))
    return value


def boolean(data: Json, field: str) -> bool:
    value = data.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        refuse(field, value, "must be true or false")
    return value


def _range(kind: str, low: float, high: float) -> str:
    if math.isinf(high):
        return f"must be {kind} of at least {low:.12g}"
    return f"must be {kind} between {low:.12g} and {high:.12g}"
