//! How one request ended, and what was measured of it.

use crate::stream::Finish;
use crate::wire::{put_string, put_varint};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// 1xx to 3xx, ended by the node.
    Succeeded,
    /// 4xx but 429.
    ClientError,
    /// 429.
    RateLimited,
    /// 5xx of the node.
    ServerError,
    /// No answer, or cut after its beginning.
    Reset,
    /// The client went away first.
    ClientAbort,
}

impl Ending {
    /// `status` is that of the node's answer (None: it gave none); `complete`: the node ended its
    /// answer; `client_gone`: the client went away before that.
    pub fn of(status: Option<u16>, complete: bool, client_gone: bool) -> Ending {
        match status {
            Some(status) if complete => match status {
                429 => Ending::RateLimited,
                400..=499 => Ending::ClientError,
                500.. => Ending::ServerError,
                _ => Ending::Succeeded,
            },
            _ if client_gone => Ending::ClientAbort,
            // An answer that was cut is the node's failure whatever its status said.
            _ => Ending::Reset,
        }
    }
}

/// All that is known of a finished request; None = not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub ending: Ending,
    pub first_byte_us: Option<u64>,
    pub tpot_us: Option<u64>,
    pub total_us: Option<u64>,
    pub chunks: u64,
    pub output_tokens: Option<u64>,
    pub finish: Option<Finish>,
}

/// What the first token of a request shows of its node's prefill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefill {
    /// The node's when the request was sent, its own included.
    pub pending_tokens: u32,
    pub first_token_us: u64,
}

/// A finished answer, for the expected length of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The hash of the user's name.
    pub user: Option<u64>,
    pub model: &'a str,
    pub output_tokens: u64,
}

/// Users are told apart by so many buckets; bucket 0 is that of requests without a user.
const USER_BUCKETS: u64 = 65_536;

impl Answer<'_> {
    /// As an isocost.v1.Answer.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + self.model.len());
        put_varint(&mut out, 1, self.user.map_or(0, |user| 1 + user % USER_BUCKETS));
        put_string(&mut out, 2, self.model.as_bytes());
        put_varint(&mut out, 3, self.output_tokens.min(u32::MAX.into()));
        out
    }
}
