"""What the filter writes of nodes, see observation.proto: written here from the same types that the
control plane reads them as.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from isocost.observe.batch import NodeObservation

_open_row, _news_row = Struct("<QIQQQ"), Struct("<Q17I7Q")


def encode_nodes(nodes: Iterable[NodeObservation]) -> tuple[bytes, bytes]:
    """The rows of those with open requests, and of those with news."""
    state, news = [], []
    for node in nodes:
        if node.in_flight:
            state.append(
                _open_row.pack(
                    node.node_id,
                    node.in_flight,
                    round(node.open_age_s_sum * 1e3),
                    node.pending_tokens,
                    node.kv_tokens,
                )
            )
        numbers = (
            *(node.started, node.succeeded, node.client_errors, node.rate_limited),
            *(node.server_errors, node.resets, node.client_aborts, node.failed_attempts),
            *(node.unknown_attempts, node.first_byte_count, node.tpot_count, node.total_count),
            *(round(node.prefill.n), node.finish_stop, node.finish_length, node.finish_tool),
            node.finish_other,
            *(round(node.first_byte_ms_sum * 1e3), round(node.tpot_ms_sum * 1e3)),
            *(round(node.total_ms_sum * 1e3), node.chunks, node.output_tokens),
            *(round(node.prefill.tokens), round(node.prefill.seconds * 1e6)),
        )
        if any(numbers):
            news.append(_news_row.pack(node.node_id, *numbers))
    return b"".join(state), b"".join(news)
