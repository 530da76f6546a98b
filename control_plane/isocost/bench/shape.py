"""Paths into a report, by the types of its dataclasses: "nodes.n1.share".

The items of a list of objects that have a name go by it, other lists by number. Names may hold
dots: the longest that fits is taken.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from isocost.errors import RejectedError

_SCALARS = (int, float, str, bool, type(None), object)


def check(parts: Sequence[str], shape: Any, before: str = "") -> None:
    """RejectedError where no report of this shape can have a number at the path."""
    if not parts:
        if not _is_scalar(shape):
            raise RejectedError(f"{before} is not a number: it {_holds(shape)}")
        if not {int, float, bool} & set(_members(shape)):
            raise RejectedError(f"{before} is not a number")
        return
    errors = []
    for head, rest, inner in _steps(parts, shape):
        try:
            check(rest, inner, _join(before, head))
            return
        except RejectedError as error:
            errors.append(error)
    if errors:
        # The first reads the least into a name.
        raise errors[0]
    where = before or "the report"
    if _is_scalar(shape):
        raise RejectedError(f"{where} has nothing below it, also no {parts[0]!r}")
    raise RejectedError(f"{where} has no {parts[0]!r}; it {_holds(shape)}")


def look_up(parts: Sequence[str], shape: Any, data: Any, before: str = "") -> Any:
    """What ``data`` of this shape has at a path that ``check`` let pass; None below a null.

    A count that is missing is 0: counts are kept of what occurred. RejectedError names the names
    there are where another is missing.
    """
    if not parts or data is None:
        return data
    members = _named(data)
    for length in range(len(parts), 0, -1):
        head = ".".join(parts[:length])
        if head in members:
            inner = next(inner for _, _, inner in _steps([head], shape))
            return look_up(parts[length:], inner, members[head], _join(before, head))
    if _is_counts(shape):
        return 0
    there = ", ".join(members) or "nothing"
    raise RejectedError(f"{before} has no {parts[0]!r} in this run; it has {there}")


def _steps(parts: Sequence[str], shape: Any) -> Iterator[tuple[str, Sequence[str], Any]]:
    """The ways to go on from ``shape``: the key, the parts after it, and what it leads to."""
    shape = _present(shape)
    keys = _keys(shape)
    for length in range(1, len(parts) + 1):
        head, rest = ".".join(parts[:length]), parts[length:]
        if isinstance(keys, dict):
            if head in keys:
                yield head, rest, keys[head]
        elif keys is not None and (_is_by_name(shape) or head.isdigit()):
            yield head, rest, keys


def _keys(shape: Any) -> dict[str, Any] | Any | None:
    """The keys of a shape and what each leads to; one shape where keys are free; None of a
    scalar."""
    if is_dataclass(shape):
        hints = get_type_hints(shape)
        return {field.name: hints[field.name] for field in fields(shape)}
    if get_origin(shape) is Mapping:
        key, inner = get_args(shape)
        return dict.fromkeys(get_args(key), inner) if get_origin(key) is Literal else inner
    if get_origin(shape) is tuple:
        return get_args(shape)[0]
    return None


def _named(data: Any) -> dict[str, Any]:
    """The members of an object or a list by the names that a path may use."""
    if isinstance(data, list):
        named: dict[str, Any] = {}
        for number, item in enumerate(data):
            # Of several processes with one name the first is the busiest.
            name = item["name"] if isinstance(item, dict) and "name" in item else str(number)
            named.setdefault(name, item)
        return named
    return dict(data)


def _holds(shape: Any) -> str:
    """What is below a shape, in words."""
    shape = _present(shape)
    keys = _keys(shape)
    if isinstance(keys, dict):
        return f"has {', '.join(keys)}"
    if get_origin(shape) is Mapping:
        return "has one entry for each name"
    by = "name" if _is_by_name(shape) else "number, from 0"
    return f"is a list; its items go by their {by}"


def _is_counts(shape: Any) -> bool:
    shape = _present(shape)
    return get_origin(shape) is Mapping and get_args(shape)[1] is int


def _is_by_name(shape: Any) -> bool:
    """Whether free keys are names; else they are numbers."""
    if get_origin(shape) is Mapping:
        return True
    item = get_args(shape)[0]
    return is_dataclass(item) and any(field.name == "name" for field in fields(item))


def _is_scalar(shape: Any) -> bool:
    return all(member in _SCALARS or get_origin(member) is Literal for member in _members(shape))


def _members(shape: Any) -> tuple[Any, ...]:
    return get_args(shape) if get_origin(shape) in (Union, types.UnionType) else (shape,)


def _present(shape: Any) -> Any:
    """The shape without its None."""
    members = [member for member in _members(shape) if member is not type(None)]
    return members[0] if len(members) == 1 else shape


def _join(before: str, head: str) -> str:
    return f"{before}.{head}" if before else head
