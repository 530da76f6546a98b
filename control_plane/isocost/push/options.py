"""The gRPC server options that clients depend on: keep-alive, message sizes, a port of its own."""

from __future__ import annotations

#: An agreement with the shipped bootstrap, whose Envoys ping every 5 s: so does the server.
KEEPALIVE_INTERVAL_MS = 5_000

#: A client that leaves a ping unanswered this long is gone: noticed in 8 s, so within 10 s on a
#: busy machine as well.
KEEPALIVE_TIMEOUT_MS = 3_000

#: What a stream may send ahead of what was read: two reports of 10,240 nodes. gRPC would find out
#: for itself how much that should be, by a ping for each of a thousand agents' reports.
LOOKAHEAD_BYTES = 1024 * 1024

#: What a client may send: far above a report of 10,240 nodes (1 MB for each of its VMs), and
#: still a limit. What the server sends has none, because it is the server's own.
MAX_RECEIVE_BYTES = 32 * 1024 * 1024


def server_options() -> list[tuple[str, int]]:
    """Options for ``grpc.aio.server(options=...)``."""
    return [
        ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # The documented time-out above is not the one in force on a server: this one is, and
        # its default is a minute.
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # gRPC takes a client that pings a quiet connection more than twice in 5 minutes for an
        # attacker and hangs up; Envoy's keep-alive does just that.
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", LOOKAHEAD_BYTES),
        ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
        # Without this a second control plane would bind the same port and take half the clients.
        ("grpc.so_reuseport", 0),
    ]
