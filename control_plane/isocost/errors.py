"""The error tree of the control plane, the agent and the commands."""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass

#: Fields whose value may be a secret, or was taken for the place of one: URLs, files of tokens and
#: keys, and command lines.
_SECRET_FIELD = re.compile(r"(_url|_file|_command|\btoken)(\.\d+)*$")
#: What has this in it may be a URL with credentials, however misspelt, or a query.
_SECRET_TEXT = re.compile(r"@|//|[?&=]")
#: Names of fields, models and GPUs.
_KEY = re.compile(r"[\w .\[\]-]+")
#: A few lines of YAML can be a value without end.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


class IsocostError(Exception):
    """Base of every error that a caller or an operator can act on."""


@dataclass(frozen=True)
class FieldError:
    """One refused configuration field: its dotted path, the value found, and what is allowed.

    ``value`` None: nothing was found, ``allowed`` says what is wrong.
    """

    field: str
    value: object
    allowed: str

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.field}: {self.allowed}"
        return f"{self.field}: {self.shown} is not allowed; {self.allowed}"

    @property
    def shown(self) -> str | None:
        """The value as it may be told: short, of what has parts only its kind, and nothing that may
        be a secret. None: nothing was found.
        """
        value = self.value
        if value is None:
            return None
        if _SECRET_FIELD.search(self.field):
            return "***"
        if isinstance(value, bool | int | float):
            return _SHORT.repr(value)
        if isinstance(value, str):
            return "***" if _SECRET_TEXT.search(value) else _SHORT.repr(value)
        return kind_of(value)


def told_key(key: object) -> str:
    """A key of a file, else three stars: a line without the blank after its key is one as well."""
    text = str(key)
    return text if len(text) <= 128 and _KEY.fullmatch(text) else "***"


def kind_of(value: object) -> str:
    """What a value of YAML is, in its words."""
    kinds = {str: "a string", bool: "a boolean", dict: "a mapping", list: "a list"}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return kinds.get(type(value), f"a {type(value).__name__}")


#: Names the configuration where an error is found by a part that does not know its file.
IN_FORCE = "configuration"


class ConfigError(IsocostError):
    """A configuration that cannot be used; carries every refused field."""

    def __init__(self, source: str, fields: list[FieldError]) -> None:
        self.source = source
        self.fields = fields
        super().__init__("\n".join(f"{source}: {field}" for field in fields))


class StartError(IsocostError):
    """Something needed at start is missing or taken: a port, a binary, a file."""


class NodeAwayError(StartError):
    """A node that something is wanted of does not answer; it may later."""


class OutputError(IsocostError):
    """The standard output could not be written; ``reader_gone``: nobody reads it any more."""

    def __init__(self, error: OSError) -> None:
        self.reader_gone = isinstance(error, BrokenPipeError)
        super().__init__(f"cannot write the output: {error.strerror}")


class StateError(IsocostError):
    """What must survive a restart could not be written; what was kept before is still there."""


class ResolveError(IsocostError):
    """A name has no address now, or nobody says."""


class TelemetryError(IsocostError):
    """A telemetry source or an engine's metrics page could not be read."""


class TopologyError(TelemetryError):
    """Text that should tell how the GPUs are joined, and does not; names the line, if it is one."""

    def __init__(self, problem: str, line_number: int | None = None, line: str = "") -> None:
        self.line_number = line_number
        self.line = line
        where = "" if line_number is None else f"line {line_number}: "
        shown = f": {_shortened(line.strip())!r}" if line.strip() else ""
        super().__init__(f"{where}{problem}{shown}")


def _shortened(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:120]}..."


class FitError(IsocostError):
    """Measurements that no coefficients can be taken from: too few, too noisy, or collinear."""


class DiscoveryError(IsocostError):
    """A discovery source gave no usable answer; the last good roster stays."""


class ConsulRefusedError(DiscoveryError):
    """Consul was there and refused: it does not know what was meant, or the token may not."""


class RejectedError(IsocostError):
    """A client or an operator asked for something that does not exist or is not allowed."""
