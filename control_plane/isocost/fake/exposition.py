"""The text form of Prometheus metrics, for the few kinds that an engine shows.

Written here because many nodes in one process are scraped several times a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

Labels = Mapping[str, str]
#: The value of a gauge (running, waiting, kv_usage), or None: the page must not have it.
Reading = Callable[[str], float | None]


class Histogram:
    """``bounds`` are the ascending upper ends of the buckets, without the infinite one."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        ends = [*map(_number, self.bounds), "+Inf"]
        totals = [*accumulate(self.counts)]
        for end, total in zip(ends, totals, strict=True):
            yield line(f"{name}_bucket", {"le": end, **labels}, total)
        yield line(f"{name}_count", labels, totals[-1])
        yield line(f"{name}_sum", labels, self.sum)


def head(name: str, kind: str, text: str) -> tuple[str, str]:
    """The two lines before the series of a family."""
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def merged(pages: Iterable[Iterable[str]]) -> Iterable[str]:
    """Pages as one: each family once, with the series of all."""
    first, *others = pages
    if not others:
        return first
    families: dict[str, list[str]] = {}
    for page in (first, *others):
        is_new, family = False, list[str]()
        for text in page:
            if text.startswith("# HELP "):
                is_new, family = text not in families, families.setdefault(text, [])
            if is_new or not text.startswith("# "):
                family.append(text)
    return chain.from_iterable(families.values())


def _number(value: float) -> str:
    return repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
