//! The times of one request, from its start to its last chunk.
//!
//! Only a streamed answer shows when tokens came. An answer in one piece has no first token to
//! time, and the gaps between its chunks are the network's, so it adds only its total time: its
//! time per token would need the fleet's median time to first byte, which the filter does not have.

/// Filled in as the answer passes; microseconds on the caller's clock. Should that clock step
/// back, times are 0, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    started_us: u64,
    first_us: u64,
    first_token_us: u64,
    last_token_us: u64,
    last_us: u64,
    chunks: u64,
    /// Chunks in which output came.
    token_chunks: u64,
    /// Output events in all chunks so far.
    events: u64,
    event_stream: bool,
}

impl Timing {
    pub fn start(now_us: u64) -> Timing {
        Timing {
            started_us: now_us,
            first_us: 0,
            first_token_us: 0,
            last_token_us: 0,
            last_us: 0,
            chunks: 0,
            token_chunks: 0,
            events: 0,
            event_stream: false,
        }
    }

    /// Response headers came; `event_stream` as `is_event_stream` says.
    pub fn answered(&mut self, event_stream: bool) {
        self.event_stream = event_stream;
    }

    /// A non-empty piece of the response body came; `output_events` is the scanner's count with
    /// this piece. True with the first token of a streamed answer.
    pub fn chunk(&mut self, now_us: u64, output_events: u64) -> bool {
        if self.chunks == 0 {
            self.first_us = now_us;
        }
        self.last_us = now_us;
        self.chunks += 1;
        if output_events <= self.events {
            return false;
        }
        self.events = output_events;
        self.last_token_us = now_us;
        self.token_chunks += 1;
        let first = self.token_chunks == 1;
        if first {
            self.first_token_us = now_us;
        }
        first
    }

    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Has a token of a streamed answer come?
    pub fn had_first_token(&self) -> bool {
        self.token_chunks > 0
    }

    /// Time to the first chunk of a streamed answer. Only of the first attempt: behind a failed
    /// one it would be the failed node's time as well.
    pub fn first_byte_us(&self, attempt_count: u64) -> Option<u64> {
        let counts = self.event_stream && self.chunks > 0 && attempt_count == 1;
        counts.then(|| self.first_us.saturating_sub(self.started_us))
    }

    /// Time to the first token of a streamed answer: what comes before it, such as the role or a
    /// ping, is none. Only of the first attempt.
    pub fn first_token_us(&self, attempt_count: u64) -> Option<u64> {
        let counts = self.token_chunks > 0 && attempt_count == 1;
        counts.then(|| self.first_token_us.saturating_sub(self.started_us))
    }

    /// Time per output token (TPOT) of a streamed answer, from its first to its last output. The
    /// scanner says how many tokens there were: by the answer's usage if that is known, because
    /// engines put several tokens into one event under load. Of several choices, those of one.
    pub fn tpot_us(&self, output_tokens: Option<u64>) -> Option<u64> {
        if self.token_chunks < 2 {
            return None;
        }
        let gaps = output_tokens?.saturating_sub(1);
        self.last_token_us.saturating_sub(self.first_token_us).checked_div(gaps)
    }

    /// Time to the last chunk; None without one.
    pub fn total_us(&self) -> Option<u64> {
        (self.chunks > 0).then(|| self.last_us.saturating_sub(self.started_us))
    }
}

/// Is this content-type that of a streamed answer?
pub fn is_event_stream(content_type: &[u8]) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    content_type
        .get(..EVENT_STREAM.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(EVENT_STREAM))
}
