"""A row of the observers' arrays for each node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


Ids = NDArray[np.uint64]


class RowNumbers:
    """Gives rows out in the order in which nodes are first asked for."""

    def __init__(self) -> None:
        self._row_of: dict[int, int] = {}
        self._asked: tuple[int, ...] | None = None
        self._answer: Rows = np.zeros(0, dtype=np.intp)
        #: The ids that have a row in rising order, and their rows.
        self._sorted = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.intp)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._row_of)

    def get(self, node_id: int) -> int | None:
        """The row of a node that was asked for before."""
        return self._row_of.get(node_id)

    def of(self, node_ids: Sequence[int]) -> Rows:
        """The nodes' rows; new ones for nodes that are new. A tuple's are remembered: a roster is
        asked for several times per tick.
        """
        if node_ids is self._asked:
            return self._answer
        known = self._row_of
        rows = [known.setdefault(node_id, len(known)) for node_id in node_ids]
        answer = np.array(rows, dtype=np.intp)
        if isinstance(node_ids, tuple):
            self._asked, self._answer = node_ids, answer
        return answer

    def of_array(self, node_ids: Ids) -> Rows:
        """The same for many nodes at once, of which few are new."""
        ids, rows = self._index()
        if len(ids):
            places = np.minimum(np.searchsorted(ids, node_ids), len(ids) - 1)
            if (ids[places] == node_ids).all():
                result: Rows = rows[places]
                return result
        return self.of(node_ids.tolist())

    def ids(self) -> list[int]:
        """The node of each row."""
        return list(self._row_of)

    def keep(self, node_ids: Sequence[int]) -> None:
        """These nodes have the first rows from now on, in this order, and no others have one."""
        self._row_of = {node_id: row for row, node_id in enumerate(node_ids)}
        self._asked = None
        self._sorted = self._sorted[0][:0], self._sorted[1][:0]

    def _index(self) -> tuple[Ids, Rows]:
        # Ids are only added but by ``keep``, so as many are the same.
        if len(self._sorted[0]) != len(self._row_of):
            ids = np.fromiter(self._row_of, dtype=np.uint64, count=len(self._row_of))
            rows = np.argsort(ids)
            self._sorted = ids[rows], rows
        return self._sorted
