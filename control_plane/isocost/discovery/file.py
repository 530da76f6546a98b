"""Nodes from a file that an operator writes; a file that cannot be used changes nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from isocost.config import ListedNodeSettings, NodeListFile
from isocost.config_file import load
from isocost.discovery.address import canonical, is_ip
from isocost.discovery.listing import Listed, Listing, Source
from isocost.errors import ConfigError, FieldError
from isocost.files import identity
from isocost.model import Node

#: A node in a file has no known start: the epoch of its instance is this.
NO_EPOCH = 0
#: What the source is called.
NAME = "file"
#: A list that lost nodes must still say so after this long: a tool that writes it piece by piece,
#: or clears it first, is done by then.
SETTLE_S = 5.0

log = logging.getLogger(__name__)


class FileNodes:
    """The nodes of one file, read again when it changes. ConfigError if it cannot be used now.

    What is new counts at once; a node that is gone stays until the file has said the same twice,
    SETTLE_S apart, or until another one has its name or address.
    """

    def __init__(
        self, path: Path, apart: Callable[[Callable[[], None]], None], now_s: float
    ) -> None:
        """``apart`` runs a reading without holding up the caller: a large file takes seconds."""
        self._path = path
        self._apart = apart
        self._reading = False
        self._seen = identity(path)
        self._listed = _read(path)
        self._confirmed_s = now_s
        # When to read again to let go of nodes that the list lost; None = it lost none.
        self._settled_s: float | None = None
        self.nodes: tuple[Node, ...] = self._listed
        self._listing = _listing(self._listed)
        #: Why the file of now is not the one in use; None = it is.
        self.error: ConfigError | None = None

    @property
    def source(self) -> Source:
        error = None if self.error is None else str(self.error)
        return Source(NAME, self._listing, self._confirmed_s, error)

    def refresh(self, now_s: float) -> None:
        """Begin to read the file if it changed or has to say again what it lost; ``nodes`` changes
        when that is done.
        """
        if self._reading:
            return
        seen = identity(self._path)
        settled = self._settled_s is not None and now_s >= self._settled_s
        if seen == self._seen and not settled:
            if self.error is None:
                self._confirmed_s = now_s
            return
        self._seen = seen
        self._reading = True
        self._apart(lambda: self._read(now_s, settled))

    def _read(self, now_s: float, settled: bool) -> None:
        try:
            listed = _read(self._path)
        except ConfigError as error:
            self.error = error
            # Said twice means twice in a row.
            self._settled_s = None if self._settled_s is None else now_s + SETTLE_S
            log.warning("the last good node list stays: %s", error)
        else:
            again = settled and listed == self._listed
            lost = () if again else _lost(self.nodes, listed)
            if not lost:
                self._settled_s = None
            elif self._settled_s is None or listed != self._listed:
                self._settled_s = now_s + SETTLE_S
            self._listed, self.error, self._confirmed_s = listed, None, now_s
            if listed + lost != self.nodes:
                self.nodes = listed + lost
                self._listing = _listing(self.nodes)
            log.info("%s: %d nodes", self._path, len(listed))
            if lost:
                log.warning("%s: kept until it says so again: %d nodes", self._path, len(lost))
        finally:
            self._reading = False


def _listing(nodes: tuple[Node, ...]) -> Listing:
    return Listing(tuple(map(Listed, nodes)))


def _lost(held: tuple[Node, ...], listed: tuple[Node, ...]) -> tuple[Node, ...]:
    """Those of ``held`` that the list has lost and that it did not replace."""
    names = {node.name for node in listed}
    addresses = {node.address for node in listed}
    return tuple(node for node in held if node.name not in names and node.address not in addresses)


def in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="discovery-file", daemon=True).start()


def _read(path: Path) -> tuple[Node, ...]:
    settings = load(NodeListFile, path)
    if "nodes" not in settings.model_fields_set:
        # An empty file is one that is just being written; `nodes: []` is a list of none.
        raise ConfigError(str(path), [FieldError("nodes", None, "it is required")])
    return tuple(map(_node, settings.nodes))


def _node(item: ListedNodeSettings) -> Node:
    node = item.node(NO_EPOCH)
    return replace(node, address=canonical(item.address)) if is_ip(item.address) else node
