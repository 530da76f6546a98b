"""The error tree of the control plane, the agent and the commands."""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass

#: What stands before the host of a URL.
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")
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
    def shown(self) -> str:
        """The value as it may be told: short, and without the credentials of a URL."""
        value = self.value
        if self.field.rpartition(".")[2] == "token":
            # Somebody took it for a key: what belongs into a token_file is shown to nobody.
            value = "***"
        if isinstance(value, str):
            value = _CREDENTIALS.sub("***@", value)
        return _SHORT.repr(value)


class ConfigError(IsocostError):
    """A configuration that cannot be used; carries every refused field."""

    def __init__(self, source: str, fields: list[FieldError]) -> None:
        self.source = source
        self.fields = fields
        super().__init__("\n".join(f"{source}: {field}" for field in fields))


class StartError(IsocostError):
    """Something needed at start is missing or taken: a port, a binary, a file."""


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
