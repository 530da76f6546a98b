"""What a page is made of; the template prints these and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """``names`` columns of text stand left, the numbers after them right."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1

    kind = "table"


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing as SVG text, and what the eye should know to read it."""

    svg: str
    caption: str

    kind = "plot"


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence; a ``warning`` is one that must not be overlooked."""

    text: str
    title: str = ""
    warning: bool = False

    kind = "note"


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with values: what was run, and the figures that matter most."""

    facts: Mapping[str, str]
    #: Few and large, or many and small.
    large: bool = False

    kind = "facts"


Block = Table | Plot | Note | Facts


@dataclass(frozen=True, slots=True)
class Section:
    """``key`` names it in the page's address. ``level`` 2 is a chapter, 3 a part of one."""

    key: str
    title: str
    blocks: Sequence[Block]
    level: int = 2


@dataclass(frozen=True, slots=True)
class Page:
    """``title`` is the document's; the lead stands before the sections."""

    title: str
    lead: Sequence[Block]
    sections: Sequence[Section]
