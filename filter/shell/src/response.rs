//! What Envoy knows of a request's way upstream. Only scalar properties: they can be read at any
//! time, also after the end, when headers cannot.
use isocost_core::head::Head;

use crate::host;

/// Where Envoy sent the request last, and how often it tried.
pub struct Upstream {
    /// ip:port; empty if no node was ever chosen.
    pub address: Vec<u8>,
    pub attempts: u64,
}

impl Upstream {
    /// `attempts` as the answer's headers tell them; a property costs Envoy much more.
    pub fn read(attempts: Option<u64>) -> Upstream {
        let property = || host::property_u64(b"upstream\0request_attempt_count");
        Upstream {
            address: host::property(b"upstream\0address").unwrap_or_default(),
            attempts: attempts.or_else(property).unwrap_or(0),
        }
    }
}

/// Does a node answer? Else it is Envoy, or another filter.
pub fn is_nodes_answer(head: &Head) -> bool {
    head.timed_by_envoy
        || host::property(b"response\0code_details").is_ok_and(|details| details == b"via_upstream")
}

/// Envoy's response flags: why a request ended otherwise than by a node's whole answer.
#[derive(Clone, Copy)]
pub struct Flags(u64);

impl Flags {
    pub const NONE: Flags = Flags(0);

    pub fn read() -> Flags {
        Flags(host::property_u64(b"response\0flags").unwrap_or(0))
    }

    pub fn client_gone(self) -> bool {
        const DOWNSTREAM_CONNECTION_TERMINATION: u64 = 0x4000;
        const DOWNSTREAM_PROTOCOL_ERROR: u64 = 0x4_0000;
        const DOWNSTREAM_REMOTE_RESET: u64 = 0x1000_0000;
        self.any(
            DOWNSTREAM_CONNECTION_TERMINATION | DOWNSTREAM_PROTOCOL_ERROR | DOWNSTREAM_REMOTE_RESET,
        )
    }

    /// The node refused, cut or did not answer in time.
    pub fn node_failed(self) -> bool {
        const UPSTREAM_REQUEST_TIMEOUT: u64 = 0x4;
        const UPSTREAM_REMOTE_RESET: u64 = 0x10;
        const UPSTREAM_CONNECTION_FAILURE: u64 = 0x20;
        const UPSTREAM_CONNECTION_TERMINATION: u64 = 0x40;
        const STREAM_IDLE_TIMEOUT: u64 = 0x1_0000;
        const UPSTREAM_MAX_STREAM_DURATION: u64 = 0x8_0000;
        const DURATION_TIMEOUT: u64 = 0x40_0000;
        const UPSTREAM_PROTOCOL_ERROR: u64 = 0x80_0000;
        self.any(
            UPSTREAM_REQUEST_TIMEOUT
                | UPSTREAM_REMOTE_RESET
                | UPSTREAM_CONNECTION_FAILURE
                | UPSTREAM_CONNECTION_TERMINATION
                | STREAM_IDLE_TIMEOUT
                | UPSTREAM_MAX_STREAM_DURATION
                | DURATION_TIMEOUT
                | UPSTREAM_PROTOCOL_ERROR,
        )
    }

    fn any(self, flags: u64) -> bool {
        self.0 & flags != 0
    }
}
