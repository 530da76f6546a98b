//! One node's line in the ledger: what is open, and the counts and sums of a period.

use super::outcome::{Ending, Outcome};
use crate::wire::{put_fixed64, put_varint};

/// A count and the sum of what was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

impl News {
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
    }
}

/// One node's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) in_flight: u32,
    /// Sum of the open requests' opening times: the sum of their ages at any time, in one step.
    opened_ms_sum: u64,
    pub(super) news: News,
}

impl Entry {
    pub(super) fn open(&mut self, opened_ms: u64) {
        self.in_flight += 1;
        self.opened_ms_sum = self.opened_ms_sum.saturating_add(opened_ms);
        self.news.started += 1;
    }

    /// False if nothing was open.
    pub(super) fn leave(&mut self, opened_ms: u64) -> bool {
        let Some(left) = self.in_flight.checked_sub(1) else { return false };
        self.in_flight = left;
        self.opened_ms_sum = match left {
            0 => 0,
            _ => self.opened_ms_sum.saturating_sub(opened_ms),
        };
        true
    }

    fn age_ms_sum(&self, now_ms: u64) -> u64 {
        // Saturating: the clock may have been set back.
        u64::from(self.in_flight).saturating_mul(now_ms).saturating_sub(self.opened_ms_sum)
    }

    pub(super) fn encode(&self, node_id: u64, now_ms: u64, out: &mut Vec<u8>) {
        let news = &self.news;
        put_fixed64(out, 1, node_id);
        for (field, value) in [
            (2, self.in_flight.into()),
            (3, self.age_ms_sum(now_ms)),
            (4, news.started.into()),
            (5, news.succeeded.into()),
            (6, news.client_errors.into()),
            (7, news.rate_limited.into()),
            (8, news.server_errors.into()),
            (9, news.resets.into()),
            (10, news.client_aborts.into()),
            (11, news.failed_attempts.into()),
            (12, news.first_byte.count.into()),
            (13, news.first_byte.sum),
            (14, news.tpot.count.into()),
            (15, news.tpot.sum),
            (16, news.total.count.into()),
            (17, news.total.sum),
            (18, news.chunks),
            (19, news.output_tokens),
            (20, news.unknown_attempts.into()),
        ] {
            put_varint(out, field, value);
        }
    }
}
