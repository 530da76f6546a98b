//! One node's line in the ledger: what is open, and the counts and sums of a period.

use super::outcome::{Ending, Outcome, Prefill};
use crate::stream::Finish;
use crate::wire::put_varint;
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

/// Counts and sums since the last batch; the fields are NodeObservation's.
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
    pub(super) progress: u64,
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

    /// The fields behind the node's id; nothing if there is nothing to tell.
    pub(super) fn encode(&self, now_ms: u64, out: &mut Vec<u8>) {
        let news = &self.news;
        let numbers = [
            self.in_flight.into(),
            self.age_ms_sum(now_ms),
            news.started.into(),
            news.succeeded.into(),
            news.client_errors.into(),
            news.rate_limited.into(),
            news.server_errors.into(),
            news.resets.into(),
            news.client_aborts.into(),
            news.failed_attempts.into(),
            news.first_byte.count.into(),
            news.first_byte.sum,
            news.tpot.count.into(),
            news.tpot.sum,
            news.total.count.into(),
            news.total.sum,
            news.chunks,
            news.output_tokens,
            news.unknown_attempts.into(),
            news.progress,
            self.pending_tokens,
            self.kv_tokens,
            news.prefill.count.into(),
            news.prefill_tokens,
            news.prefill.sum,
            news.finish_stop.into(),
            news.finish_length.into(),
            news.finish_tool.into(),
            news.finish_other.into(),
        ];
        for (field, number) in (2..).zip(numbers) {
            put_varint(out, field, number);
        }
    }
}
