"""Nodes from a file that an operator writes; a file that cannot be used changes nothing."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from isocost.config import NodeListFile, load
from isocost.errors import ConfigError, FieldError
from isocost.model import Node

#: A node in a file has no known start: the epoch of its instance is this.
NO_EPOCH = 0

log = logging.getLogger(__name__)


class FileNodes:
    """The nodes of one file, read again when it changes. ConfigError if it cannot be used now."""

    def __init__(self, path: Path, apart: Callable[[Callable[[], None]], None]) -> None:
        """``apart`` runs a reading without holding up the caller: a large file takes seconds."""
        self._path = path
        self._apart = apart
        self._reading = False
        self._seen = _identity(path)
        self.nodes: tuple[Node, ...] = _read(path)
        #: Why the file of now is not the one in use; None = it is.
        self.error: ConfigError | None = None

    def refresh(self) -> None:
        """Begin to read the file if it changed; ``nodes`` changes when that is done."""
        if self._reading or (seen := _identity(self._path)) == self._seen:
            return
        self._seen = seen
        self._reading = True
        self._apart(self._read)

    def _read(self) -> None:
        try:
            nodes = _read(self._path)
        except ConfigError as error:
            self.error = error
            log.warning("the last good node list stays: %s", error)
        else:
            self.nodes, self.error = nodes, None
            log.info("%s: %d nodes", self._path, len(nodes))
        finally:
            self._reading = False


def in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="discovery-file", daemon=True).start()


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced; None = it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _read(path: Path) -> tuple[Node, ...]:
    settings = load(NodeListFile, path)
    if "nodes" not in settings.model_fields_set:
        # An empty file is one that is just being written; `nodes: []` is a list of none.
        raise ConfigError(str(path), [FieldError("nodes", None, "it is required")])
    nodes = tuple(item.node(NO_EPOCH) for item in settings.nodes)
    twice = [
        FieldError(f"nodes.*.{field}", value, "must be there only once")
        for field in ("name", "address")
        for value, count in Counter(getattr(node, field) for node in nodes).items()
        if count > 1
    ]
    if twice:
        raise ConfigError(str(path), twice)
    return nodes
