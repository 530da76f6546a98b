//! Observation batches on their way from the worker VMs to the control plane.
use std::collections::VecDeque;

use isocost_core::wire::put_bytes;

use crate::host::Queue;

/// More would only delay the tick; at five batches a second per worker it is never reached.
const MAX_PER_TICK: usize = 64;
/// What is kept while the control plane is away: the newest batches up to this size.
const MAX_BYTES: usize = 1 << 20;

#[derive(Default)]
pub struct Backlog {
    batches: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Backlog {
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Empties the shared queue, also when nobody listens: Envoy does not bound it.
    pub fn drain(&mut self, queue: Queue) {
        for _ in 0..MAX_PER_TICK {
            let Ok(batch) = queue.pop() else { break };
            self.bytes += batch.len();
            self.batches.push_back(batch);
        }
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.batches.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    /// All batches as one isocost.v1.ObservationReport.
    pub fn take_report(&mut self) -> Vec<u8> {
        const BATCHES: u32 = 1;
        let mut report = Vec::with_capacity(self.bytes + 8 * self.batches.len());
        for batch in self.batches.drain(..) {
            put_bytes(&mut report, BATCHES, &batch);
        }
        self.bytes = 0;
        report
    }
}
