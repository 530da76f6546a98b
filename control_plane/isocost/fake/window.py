"""The rate of a running total over the last seconds."""

from __future__ import annotations

from collections import deque


class Window:
    """The growth of a running total over the last seconds, as seen by those who ask."""

    def __init__(self, seconds: float, now_s: float) -> None:
        self._seconds = seconds
        self._points: deque[tuple[float, float]] = deque([(now_s, 0.0)])

    def rate(self, now_s: float, total: float) -> float:
        """Per second; the first point kept is the last one older than the window."""
        points = self._points
        if now_s > points[-1][0]:
            points.append((now_s, total))
        while len(points) > 2 and points[1][0] <= now_s - self._seconds:
            points.popleft()
        elapsed_s = points[-1][0] - points[0][0]
        return (points[-1][1] - points[0][1]) / elapsed_s if elapsed_s > 0 else 0.0
