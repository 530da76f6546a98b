//! Which VMs of an Envoy are alive, by the batches that they hand to its feed. A worker whose VM
//! failed serves nothing more until its next request, and its silence is all that shows it.

use crate::ledger::{LEAVING, TABLE_VERSION};
use crate::wire::{put_bytes, put_string, put_varint, Reader, Value};

/// A VM hands over a batch every 200 ms, so one that missed fifteen is dead. The control plane
/// drops its open requests after the same time.
pub const SILENT_MS: u64 = 3_000;

/// One VM. Its life is told in numbers of batches, not in times: what comes out of the queue late
/// must not look as if it had lived long.
#[derive(Clone, Copy, Debug)]
struct Life {
    incarnation: u64,
    /// The batches of all VMs are numbered as they come; these are its first and its last.
    first: u64,
    last: u64,
    heard_ms: u64,
}

/// The VMs that have served a request: the others hand nothing over.
#[derive(Debug, Default)]
pub struct Workers {
    lives: Vec<Life>,
    batches: u64,
    expected: u32,
}

impl Workers {
    /// Takes note of a batch, the beginning of which is read.
    pub fn heard(&mut self, batch: &[u8], now_ms: u64) {
        let Some(Head { incarnation, leaving }) = Head::read(batch) else { return };
        self.batches += 1;
        let known = self.lives.iter_mut().find(|life| life.incarnation == incarnation);
        match known {
            Some(life) => {
                life.last = self.batches;
                life.heard_ms = now_ms;
            }
            None => self.lives.push(Life {
                incarnation,
                first: self.batches,
                last: self.batches,
                heard_ms: now_ms,
            }),
        }
        if leaving {
            self.expect();
            self.lives.retain(|life| life.incarnation != incarnation);
            self.expected = self.expected.saturating_sub(1);
        }
    }

    /// How many are alive, and the most that ever were at the same time.
    pub fn count(&mut self, now_ms: u64) -> (u32, u32) {
        self.expect();
        self.lives.retain(|life| now_ms.saturating_sub(life.heard_ms) <= SILENT_MS);
        // A VM that took a dead one's place would otherwise count beside it until that is known.
        (number(self.lives.len()).min(self.expected), self.expected)
    }

    /// Appends an isocost.v1.Workers to an isocost.v1.ObservationReport.
    pub fn report(&mut self, envoy: &[u8], now_ms: u64, report: &mut Vec<u8>) {
        let (live, expected) = self.count(now_ms);
        let mut workers = Vec::new();
        put_string(&mut workers, 1, envoy);
        put_varint(&mut workers, 2, live.into());
        put_varint(&mut workers, 3, expected.into());
        put_bytes(report, 2, &workers);
    }

    /// Most lives overlap where one begins. A VM that was loaded in a dead one's place began after
    /// that one's last batch, so the two never count together.
    fn expect(&mut self) {
        let overlap = |begin: u64| {
            self.lives.iter().filter(|life| life.first <= begin && begin <= life.last).count()
        };
        let most = self.lives.iter().map(|life| overlap(life.first)).max();
        self.expected = self.expected.max(number(most.unwrap_or(0)));
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The beginning of an isocost.v1.ObservationBatch.
struct Head {
    incarnation: u64,
    leaving: bool,
}

impl Head {
    /// None if these are not the bytes of a batch.
    fn read(batch: &[u8]) -> Option<Head> {
        let mut reader = Reader::new(batch);
        let mut head = Head { incarnation: 0, leaving: false };
        let is_header = |number: u32| number <= TABLE_VERSION || number == LEAVING;
        // Nothing behind it needs to be looked at.
        while let Some((number, value)) = reader.field().ok()?.filter(|(n, _)| is_header(*n)) {
            match (number, value) {
                (2, Value::Fixed64(value)) => head.incarnation = value,
                (LEAVING, Value::Varint(value)) => head.leaving = value != 0,
                _ => {}
            }
        }
        Some(head)
    }
}
