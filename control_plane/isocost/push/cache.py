"""The one current snapshot: published as a whole, watched by every stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from isocost.push.consistency import require_consistent
from isocost.push.snapshot import Snapshot, TypeResources


class Cache:
    """Holds the snapshot. Belongs to one event loop and is not for other threads."""

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._watchers: set[asyncio.Event] = set()

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def publish(self, *types: TypeResources) -> bool:
        """Replace the given types in one step; true if any version is new.

        A type given with its published version is left as it is. SnapshotError, with nothing
        changed, if the result does not fit together; so a new roster and its first table belong
        in one call, and so do a new EDS cluster and its endpoints.
        """
        changed = {}
        for new in types:
            old = self._snapshot.get(new.type_url)
            if old is None or old.version != new.version:
                changed[new.type_url] = new
        if not changed:
            return False
        candidate = self._snapshot.replaced(changed)
        require_consistent(candidate, changed.keys())
        self._snapshot = candidate
        for watcher in self._watchers:
            watcher.set()
        return True

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """An event that every change sets. Its holder clears it, then reads the snapshot."""
        event = asyncio.Event()
        self._watchers.add(event)
        try:
            yield event
        finally:
            self._watchers.discard(event)
