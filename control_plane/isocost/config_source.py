"""Where a daemon's configuration comes from: a file, and the command line, whose words win."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from isocost.config_file import parse, parse_text, read
from isocost.config_types import StrictSettings
from isocost.errors import IN_FORCE, ConfigError

Config = TypeVar("Config", bound=StrictSettings)


@dataclass(frozen=True)
class ConfigSource(Generic[Config]):
    """``path`` None: no file. ``flags`` are values from the command line by dotted field; they
    stand in place of the file's, also when that is read again.
    """

    kind: type[Config]
    path: Path | None
    flags: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As an error names it."""
        return "command line" if self.path is None else str(self.path)

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Errors of parts that do not know where their settings are from name it."""
        try:
            yield
        except ConfigError as error:
            if error.source != IN_FORCE:
                raise
            raise ConfigError(self.name, error.fields) from error

    def load(self) -> Loaded[Config]:
        """Read all of it; ConfigError names every refused field."""
        return self.parse("" if self.path is None else read(self.path))

    def parse(self, text: str) -> Loaded[Config]:
        """The configuration with ``text`` as the file's; ConfigError names every refused field."""
        config = parse_text(self.kind, text, self.name)
        if self.flags:
            data = config.model_dump()
            for name, value in self.flags.items():
                _put(data, name, value)
            config = parse(self.kind, data, self.name)
        return Loaded(self, config, text, time.time())


@dataclass(frozen=True)
class Loaded(Generic[Config]):
    """A configuration, and the file's text that it is from, read at ``at_unix_s``."""

    source: ConfigSource[Config]
    config: Config
    text: str
    at_unix_s: float

    @property
    def sha256(self) -> str | None:
        """Of the file, in hexadecimal; None without one."""
        if self.source.path is None:
            return None
        return hashlib.sha256(self.text.encode()).hexdigest()


def built_in(config: Config) -> Loaded[Config]:
    """A configuration that is from no file."""
    return Loaded(ConfigSource(type(config), None), config, "", time.time())


def _put(data: dict[str, object], field: str, value: object) -> None:
    first, _, rest = field.partition(".")
    inner = data[first]
    if rest and isinstance(inner, dict):
        _put(inner, rest, value)
    else:
        data[first] = value
