"""What a node's requests and answers move over the network."""

from __future__ import annotations

from isocost.fake.window import Window

#: The rate is a mean of 5 s.
NET_WINDOW_S = 5.0


class Traffic:
    """Bytes since the node started: an engine that starts anew does not reset a network card."""

    def __init__(self, now_s: float) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0
        self._window = Window(NET_WINDOW_S, now_s)

    def bytes_per_s(self, now_s: float) -> float:
        """Both directions together."""
        return self._window.rate(now_s, float(self.received_bytes + self.sent_bytes))
