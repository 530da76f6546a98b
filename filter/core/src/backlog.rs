//! Observation batches on their way to the control plane: bounded, for it may be away for long.

use std::collections::VecDeque;

use crate::wire::put_bytes;

/// What is kept while the control plane is away: the newest batches up to this size.
pub const MAX_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Backlog {
    batches: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Backlog {
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes a batch and forgets the oldest ones that there is no room for.
    pub fn push(&mut self, batch: Vec<u8>) {
        self.bytes += batch.len();
        self.batches.push_back(batch);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.batches.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    /// All batches as one isocost.v1.ObservationReport.
    pub fn take_report(&mut self) -> Vec<u8> {
        const BATCHES: u32 = 1;
        let mut report = Vec::with_capacity(self.bytes + 8 * self.batches.len());
        while let Some(batch) = self.batches.pop_front() {
            put_bytes(&mut report, BATCHES, &batch);
        }
        self.bytes = 0;
        report
    }
}
