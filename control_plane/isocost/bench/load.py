"""From a trace's name or file to the requests of a run."""

from __future__ import annotations

import math
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from isocost.bench.scale import at_rate, cut, scale
from isocost.bench.sources import abc_mix, aibrix, azure, burstgpt, bursts, mooncake, servegen
from isocost.bench.sources.renewal import MAX_CV, MIN_CV, check_count
from isocost.bench.sources.rows import Field, opened
from isocost.bench.sources.spread import spread
from isocost.bench.trace import TraceRequest
from isocost.errors import StartError
from isocost.files import DATA

#: Generated loads last this long unless a duration is wanted.
GENERATED_DURATION_S = 60.0
#: A file whose last request comes before this part of the wanted duration is noted.
_EARLY = 0.9
#: So many rows are read on behind what is wanted: recorders write requests down as they end, so
#: that one may stand behind others that came after it.
_DISORDER = 1000
#: Bundled files, each with its format; the two generators need none.
BUNDLED = {
    "azure-conv": ("azure_conv_10min.csv", "azure"),
    "mooncake": ("mooncake_conversation_15min.jsonl.gz", "mooncake"),
    "mooncake-bursts": ("mooncake_conversation_15min.jsonl.gz", "mooncake-bursts"),
    "servegen": ("servegen_m_large_clients.csv", "servegen"),
}
GENERATED = ("abc", "burstgpt")
#: What ``--trace`` knows by name, besides files.
NAMES = (*BUNDLED, *GENERATED)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A format with one line a request."""

    read: Callable[[Iterable[str], str], Iterator[TraceRequest]]
    fields: tuple[Field, ...]
    #: Requests of the same time are spread over this; 0 = they stay together.
    spread_s: float = 0.0


_RECORDED = {
    "azure": _Recorded(azure.read, azure.FIELDS),
    "mooncake": _Recorded(mooncake.read, mooncake.FIELDS, mooncake.STEP_S),
    "mooncake-bursts": _Recorded(mooncake.read, mooncake.FIELDS),
    "burstgpt": _Recorded(burstgpt.read, burstgpt.FIELDS, burstgpt.STEP_S),
    "aibrix": _Recorded(aibrix.read, aibrix.FIELDS),
}
#: What ``--format`` knows.
FORMATS = (*_RECORDED, "servegen", "abc")


@dataclass(frozen=True, slots=True)
class Load:
    """The requests of a run, at least one, in order of arrival.

    They fill ``duration_s``: as long as was wanted, or up to the last request where nothing was
    wanted or the file ends before.
    """

    requests: tuple[TraceRequest, ...]
    duration_s: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the load is to be; None = as the trace has it.

    ``rate`` is the mean of what is sent in the end, in requests/s, and excludes ``time_scale``.
    """

    seed: int = 1
    duration_s: float | None = None
    rate: float | None = None
    time_scale: float = 1.0
    rate_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("duration_s", "rate", "time_scale", "rate_scale"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise StartError(f"{name}: {value!r} is not allowed; a number above 0")
        if self.rate is not None and self.time_scale != 1:
            raise StartError("rate and time_scale exclude each other: give one of them")

    @property
    def trace_s(self) -> float | None:
        """How much of the trace's own time is needed, before any scaling."""
        return None if self.duration_s is None else self.duration_s * self.time_scale

    @property
    def generated_s(self) -> float:
        """How much of a generated trace is needed, before any scaling."""
        return self.trace_s or GENERATED_DURATION_S * self.time_scale

    @property
    def source_rate(self) -> float | None:
        """The rate before requests are multiplied."""
        return None if self.rate is None else self.rate / self.rate_scale


def load(
    source: str,
    format: str | None = None,  # noqa: A002 - the option's name
    *,
    seed: int = 1,
    duration_s: float | None = None,
    rate: float | None = None,
    time_scale: float = 1.0,
    rate_scale: float = 1.0,
    note: Callable[[str], None] = lambda _text: None,
) -> tuple[TraceRequest, ...]:
    """The requests of :func:`load_run`."""
    wanted = Wanted(seed, duration_s, rate, time_scale, rate_scale)
    return load_run(source, format, wanted, note).requests


def load_run(
    source: str, format_name: str | None, wanted: Wanted, note: Callable[[str], None]
) -> Load:
    """What is to be sent.

    ``source`` is one of NAMES (``burstgpt:cv=4`` for other bursts) or a file, whose format is
    guessed from its first line unless given. Recorded traces are read from their first request
    on, as far as needed. ``note`` gets what the user should know: rows left out, a trace that
    ends early. StartError: what cannot be read, or a value that is not allowed.
    """
    name, _, parameter = source.partition(":")
    if name in GENERATED:
        requests, ended = _generated(name, parameter, format_name, wanted), False
    else:
        requests, ended = _from_file(source, format_name, wanted, note)
    requests = scale(requests, wanted.time_scale, wanted.rate_scale, wanted.seed)
    duration_s = wanted.duration_s
    if duration_s is not None:
        requests = cut(requests, duration_s)
    if not requests:
        raise StartError(f"{source}: there are no requests to send")
    last_s = requests[-1].arrival_s
    if duration_s is not None and ended and last_s < _EARLY * duration_s:
        note(f"{source}: the last request comes after {last_s:.3g} s")
    return Load(requests, last_s if duration_s is None or ended else duration_s)


def _generated(
    name: str, parameter: str, format_name: str | None, wanted: Wanted
) -> tuple[TraceRequest, ...]:
    if format_name not in {None, name}:
        raise StartError(f"{name} is generated: it is no {format_name} file")
    lengths = load("azure-conv")
    if name == "abc":
        if parameter:
            raise StartError(f"abc:{parameter} is not allowed; abc has no parameters")
        rate = wanted.source_rate or abc_mix.DEFAULT_RATE_PER_S
        return abc_mix.generate(lengths, rate, wanted.generated_s, wanted.seed)
    rate = wanted.source_rate or bursts.DEFAULT_RATE_PER_S
    return bursts.generate(lengths, rate, _cv(parameter), wanted.generated_s, wanted.seed)


def _cv(parameter: str) -> float:
    """The CV of ``burstgpt:cv=X``."""
    if not parameter:
        return bursts.DEFAULT_CV
    key, _, value = parameter.partition("=")
    try:
        if key == "cv" and MIN_CV <= (cv := float(value)) <= MAX_CV:
            return cv
    except ValueError:
        pass
    raise StartError(
        f"burstgpt:{parameter} is not allowed; burstgpt:cv=X with X from {MIN_CV:g} to {MAX_CV:g}"
    )


def _from_file(
    source: str, format_name: str | None, wanted: Wanted, note: Callable[[str], None]
) -> tuple[tuple[TraceRequest, ...], bool]:
    """The source's requests at the source's density (``rate_scale`` and ``time_scale`` to come),
    and whether it has no more than was wanted."""
    path, bundled_format = _path(source)
    if path.stat().st_size == 0:
        raise StartError(f"{path} is empty")
    format_name = format_name or bundled_format or _guessed(path)
    if format_name not in FORMATS:
        raise StartError(f"format: {format_name!r} is not allowed; {', '.join(FORMATS)}")
    if format_name == "abc":
        raise StartError(f"{source}: abc is generated and reads no file; give --trace abc")
    if format_name == "servegen":
        with opened(path) as lines:
            clients = servegen.read_clients(lines, str(path))
        rate, length_s = wanted.source_rate, wanted.generated_s
        return servegen.generate(clients, rate, length_s, wanted.seed), False
    return _recorded(path, _RECORDED[format_name], wanted, note)


def _path(source: str) -> tuple[Path, str | None]:
    if source in BUNDLED:
        file, format_name = BUNDLED[source]
        return DATA / file, format_name
    path = Path(source)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise StartError(
            f"{source}: no such file, and no trace of this name: {', '.join(NAMES)}"
        ) from None
    except OSError as error:
        raise StartError(f"{source}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        # It is read twice: a pipe would be empty then.
        raise StartError(f"{source} is {_kind_of(mode)}; a trace must be a regular file")
    return path, None


def _kind_of(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"


def _guessed(path: Path) -> str:
    """The format that the first line shows."""
    with opened(path) as lines:
        first = next(iter(lines), "").strip()
    if first.startswith("{"):
        return "mooncake"
    columns = {column.strip('"') for column in first.split(",")}
    csv_fields = {
        name: recorded.fields for name, recorded in _RECORDED.items() if "mooncake" not in name
    }
    for name, fields in (csv_fields | {"servegen": servegen.FIELDS}).items():
        if columns >= {field.name for field in fields}:
            return name
    raise StartError(f"{path}: its first line shows none of the formats; give --format")


def _recorded(
    path: Path, recorded: _Recorded, wanted: Wanted, note: Callable[[str], None]
) -> tuple[tuple[TraceRequest, ...], bool]:
    """The part of the file that is needed, from 0, at the wanted rate, and whether it is all."""
    rate = wanted.source_rate
    most = None
    if rate is not None and wanted.duration_s is not None:
        check_count(rate * wanted.duration_s)
        most = max(2, round(rate * wanted.duration_s))
    until_s = wanted.trace_s if rate is None else None
    requests: list[TraceRequest] = []
    empty = beyond = 0
    with opened(path) as lines:
        for request in recorded.read(lines, str(path)):
            late = (
                until_s is not None
                and requests
                and request.arrival_s >= requests[0].arrival_s + until_s
            )
            if late or (most is not None and len(requests) >= most):
                beyond += 1
                if beyond > _DISORDER:
                    break
            if request.input_tokens and request.output_tokens:
                requests.append(request)
                check_count(len(requests))
            elif not late:
                empty += 1
    if empty:
        note(f"{path}: requests left out, because they have no prompt or no answer: {empty:,}")
    if not requests:
        raise StartError(f"{path}: there are no requests with a prompt and an answer")
    requests.sort(key=lambda request: request.arrival_s)
    if first_s := requests[0].arrival_s:
        requests = [replace(item, arrival_s=item.arrival_s - first_s) for item in requests]
    whole = len(requests)
    if until_s is not None:
        requests = [item for item in requests if item.arrival_s < until_s]
    requests = requests[:most]
    # With a row more than was wanted the file has not ended before.
    ended = len(requests) == whole
    if recorded.spread_s:
        requests = list(spread(requests, recorded.spread_s))
    return (tuple(requests) if rate is None else at_rate(requests, rate)), ended
