"""When does a control plane that has just started know its fleet?

Agents come back one by one. A roster of the first few would take the others out of every Envoy. So
the names of the last roster are kept, and the first one waits until all of them are back.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Set
from pathlib import Path

from isocost.errors import StateError
from isocost.state_file import replace_json

FILE_NAME = "last_roster.json"
_SCHEMA = "isocost.last_roster/1"

#: For a fleet whose names are not known. After an outage of 5 s agents try again within 0.33 s: the
#: last of them has come and is heard within this, and tables are fresh within a second.
QUIET_S = 0.35

log = logging.getLogger(__name__)


class FirstRoster:
    """Holds the first roster back. Times are monotonic seconds."""

    def __init__(self, settle_s: float, expected: Set[str] = frozenset()) -> None:
        """``expected``: the nodes of the last roster, none if nobody knows. A fleet that is not
        complete after ``settle_s`` is published as it is, unless it is empty: a source that has
        lost all of a fleet that was there does not empty every Envoy.
        """
        self._settle_s = settle_s
        self._expected = expected
        self._started_s = math.inf
        self._names: frozenset[str] = frozenset()
        self._grown_s = math.inf
        self._complete = False

    def complete(self, sample_age_s: Mapping[str, float], now_s: float) -> bool:
        """Are all expected nodes among those known now, by name with the age of their samples? If
        none are expected: did they cease to grow in number? Once true it stays so.
        """
        if self._complete:
            return True
        self._started_s = min(self._started_s, now_s)
        new = sample_age_s.keys() - self._names
        if new:
            self._names |= new
            ages_s = [age_s for name in new if (age_s := sample_age_s[name]) < math.inf]
            self._grown_s = now_s - min(ages_s, default=0.0)
        if self._expected:
            there = self._expected <= self._names
        else:
            there = bool(self._names) and now_s - self._grown_s >= QUIET_S
        meant = bool(self._names) or not self._expected
        self._complete = there or (meant and self.settled(now_s))
        return self._complete

    def settled(self, now_s: float) -> bool:
        """Is it so long since the start that a node that comes now is a new one?"""
        return now_s - self._started_s >= self._settle_s


def load(folder: Path) -> frozenset[str]:
    """The names kept in the folder; none if they are not there or cannot be read: to wait a little
    less well is no reason not to start.
    """
    path = folder / FILE_NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, RecursionError) as error:
        log.warning("cannot read the last roster in %s: %s", path, error)
        return frozenset()
    names = data.get("nodes") if isinstance(data, dict) and data.get("schema") == _SCHEMA else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        log.warning("%s is not a file of the schema %s: it is not used", path, _SCHEMA)
        return frozenset()
    return frozenset(names)


def save(folder: Path, names: Set[str]) -> None:
    """Replace the file in one step. StateError: it could not be written; the old one is there."""
    path = folder / FILE_NAME
    try:
        replace_json(path, {"schema": _SCHEMA, "nodes": sorted(names)})
    except OSError as error:
        # Its full text names a temporary file, another one each time.
        reason = error.strerror or str(error)
        raise StateError(f"cannot keep the last roster in {path}: {reason}") from error
