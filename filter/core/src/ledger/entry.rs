//! One node's line in the ledger: what is open, and the counts and sums of a period.

use super::outcome::{Ending, Outcome, Prefill};
use crate::stream::Finish;
use crate::work::Work;

/// A count and the sum of what was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u32,
    sum: u64,
}

impl Mean {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.count += 1;
            self.sum = self.sum.saturating_add(value);
        }
    }
}

/// Counts and sums since the last batch; see observation.proto.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    started: u32,
    succeeded: u32,
    client_errors: u32,
    rate_limited: u32,
    server_errors: u32,
    resets: u32,
    client_aborts: u32,
    pub(super) failed_attempts: u32,
    pub(super) unknown_attempts: u32,
    first_byte: Mean,
    tpot: Mean,
    total: Mean,
    chunks: u64,
    output_tokens: u64,
    prefill: Mean,
    prefill_tokens: u64,
    finish_stop: u32,
    finish_length: u32,
    finish_tool: u32,
    finish_other: u32,
}

impl News {
    pub(super) fn add_prefill(&mut self, prefill: Prefill) {
        self.prefill.add(Some(prefill.first_token_us));
        self.prefill_tokens += u64::from(prefill.pending_tokens);
    }

    /// Counts a finished request.
    pub(super) fn add(&mut self, outcome: &Outcome) {
        *match outcome.ending {
            Ending::Succeeded => &mut self.succeeded,
            Ending::ClientError => &mut self.client_errors,
            Ending::RateLimited => &mut self.rate_limited,
            Ending::ServerError => &mut self.server_errors,
            Ending::Reset => &mut self.resets,
            Ending::ClientAbort => &mut self.client_aborts,
        } += 1;
        self.first_byte.add(outcome.first_byte_us);
        self.tpot.add(outcome.tpot_us);
        self.total.add(outcome.total_us);
        self.chunks += outcome.chunks;
        let tokens = outcome.output_tokens.unwrap_or(0);
        self.output_tokens = self.output_tokens.saturating_add(tokens);
        if let Some(finish) = outcome.finish {
            *match finish {
                Finish::Stop => &mut self.finish_stop,
                Finish::Length => &mut self.finish_length,
                Finish::Tool => &mut self.finish_tool,
                Finish::Other => &mut self.finish_other,
            } += 1;
        }
    }
}

/// One node's line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) in_flight: u32,
    /// Prompt tokens of the open requests that have no first token yet.
    pending_tokens: u64,
    /// Of the open requests.
    kv_tokens: u64,
    /// Sum of the open requests' opening times: the sum of their ages at any time, in one step.
    opened_ms_sum: u64,
    pub(super) news: News,
}

impl Entry {
    pub(super) fn open(&mut self, opened_ms: u64, work: Work) {
        self.in_flight += 1;
        self.opened_ms_sum = self.opened_ms_sum.saturating_add(opened_ms);
        self.pending_tokens = self.pending_tokens.saturating_add(work.prompt_tokens.into());
        self.kv_tokens = self.kv_tokens.saturating_add(work.kv_tokens.into());
        self.news.started += 1;
    }

    pub(super) fn first_token(&mut self, work: Work) {
        self.pending_tokens = self.pending_tokens.saturating_sub(work.prompt_tokens.into());
    }

    /// False if nothing was open.
    pub(super) fn leave(&mut self, opened_ms: u64, work: Work, had_first_token: bool) -> bool {
        let Some(left) = self.in_flight.checked_sub(1) else { return false };
        if !had_first_token {
            self.first_token(work);
        }
        self.in_flight = left;
        self.opened_ms_sum = self.opened_ms_sum.saturating_sub(opened_ms);
        self.kv_tokens = self.kv_tokens.saturating_sub(work.kv_tokens.into());
        if left == 0 {
            // Whatever was wrong in them ends here.
            *self = Entry { news: self.news, ..Entry::default() };
        }
        true
    }

    fn age_ms_sum(&self, now_ms: u64) -> u64 {
        // Saturating: the clock may have been set back.
        u64::from(self.in_flight).saturating_mul(now_ms).saturating_sub(self.opened_ms_sum)
    }

    /// Appends the row of a node with open requests.
    pub(super) fn encode_open(&self, node_id: u64, now_ms: u64, out: &mut Vec<u8>) {
        if self.in_flight > 0 {
            put_row(
                node_id,
                &[self.in_flight],
                &[self.age_ms_sum(now_ms), self.pending_tokens, self.kv_tokens],
                out,
            );
        }
    }
}

impl News {
    /// Appends the row of a node with news.
    pub(super) fn encode(&self, node_id: u64, out: &mut Vec<u8>) {
        let counts = [
            self.started,
            self.succeeded,
            self.client_errors,
            self.rate_limited,
            self.server_errors,
            self.resets,
            self.client_aborts,
            self.failed_attempts,
            self.unknown_attempts,
            self.first_byte.count,
            self.tpot.count,
            self.total.count,
            self.prefill.count,
            self.finish_stop,
            self.finish_length,
            self.finish_tool,
            self.finish_other,
        ];
        let sums = [
            self.first_byte.sum,
            self.tpot.sum,
            self.total.sum,
            self.chunks,
            self.output_tokens,
            self.prefill_tokens,
            self.prefill.sum,
        ];
        // Each of the sums goes with a count.
        if counts.iter().any(|&count| count > 0) {
            put_row(node_id, &counts, &sums, out);
        }
    }
}

fn put_row(node_id: u64, counts: &[u32], sums: &[u64], out: &mut Vec<u8>) {
    out.extend_from_slice(&node_id.to_le_bytes());
    counts.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
    sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
}
