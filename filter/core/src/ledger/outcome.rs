//! How one request ended, and what was measured of it.

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
}
