//! What one VM saw of its requests, per node: what is open now, and what happened since the last
//! report. Nodes are known by id, so a roster may change under open requests, and a late close
//! never hits a node's successor.

use crate::pick::Reason;
use crate::wire::{put_bytes, put_fixed64, put_string, put_varint};
use crate::work::Work;

mod entry;
mod newest;
mod outcome;

pub use outcome::{Answer, Ending, Outcome, Prefill};

use entry::Entry;
use newest::Newest;

/// Placements in one batch: of 50 long prompts, 16 KiB.
const MAX_HASHES: usize = 2_048;
/// Answers in one batch: about 10 KiB.
const MAX_ANSWERS: usize = 256;

/// Who reports, and from which table it picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader<'a> {
    /// Envoy's node id.
    pub envoy: &'a [u8],
    /// One life of this VM.
    pub incarnation: u64,
    pub sequence: u64,
    /// 0 = none.
    pub table_version: u64,
    /// The VM ends as it should: nobody must wait for it.
    pub leaving: bool,
}

/// The field that says so. It stands right behind the others of the header, where the feed finds it
/// at once.
pub(crate) const LEAVING: u32 = 13;
/// The last of the other fields of the header.
pub(crate) const TABLE_VERSION: u32 = 5;

/// Routing decisions since the last batch.
#[derive(Clone, Copy, Debug, Default)]
struct Decisions {
    picked: u32,
    no_table: u32,
    stale_table: u32,
    no_eligible: u32,
    host_failure: u32,
}

/// The books of one VM.
#[derive(Debug)]
pub struct Ledger {
    /// Ordered by node id. Boxed, so that a new node moves 16 bytes per node behind it, no more.
    entries: Vec<(u64, Box<Entry>)>,
    decisions: Decisions,
    stale_choices: u32,
    /// The node, and the hash of a beginning of a prompt.
    placements: Newest<(u64, u64)>,
    /// As the batch holds them.
    answers: Newest<Vec<u8>>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            entries: Vec::new(),
            decisions: Decisions::default(),
            stale_choices: 0,
            placements: Newest::new(MAX_HASHES),
            answers: Newest::new(MAX_ANSWERS),
        }
    }
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// Counts a routing decision.
    pub fn decide(&mut self, reason: Reason) {
        let decisions = &mut self.decisions;
        *match reason {
            Reason::Picked => &mut decisions.picked,
            Reason::NoTable => &mut decisions.no_table,
            Reason::StaleTable => &mut decisions.stale_table,
            Reason::NoEligible => &mut decisions.no_eligible,
            Reason::HostFailure => &mut decisions.host_failure,
            // No node was chosen, and none was looked for.
            Reason::UnknownModel => return,
        } += 1;
    }

    /// Counts a request whose choice Envoy could not follow: a listed node was not in its cluster.
    pub fn stale_choice(&mut self) {
        self.stale_choices += 1;
    }

    /// A request was sent to the node. Keep `opened_ms` and `work`: the calls that follow need the
    /// same.
    pub fn open(&mut self, node_id: u64, opened_ms: u64, work: Work) {
        if let Some(entry) = self.entry(node_id) {
            entry.open(opened_ms, work);
        }
    }

    /// An open request turned out to be on another node before its first token: it is open there
    /// from its own beginning on, and counts as started on both.
    pub fn reassign(&mut self, from: u64, to: u64, opened_ms: u64, work: Work) {
        if from != to && self.known(from).is_some_and(|entry| entry.leave(opened_ms, work, false)) {
            self.open(to, opened_ms, work);
        }
    }

    /// The first token of an open request came; call it once. `prefill` is None where its time
    /// does not count.
    pub fn first_token(&mut self, node_id: u64, work: Work, prefill: Option<Prefill>) {
        let Some(entry) = self.known(node_id).filter(|entry| entry.in_flight > 0) else { return };
        entry.first_token(work);
        if let Some(prefill) = prefill {
            entry.news.add_prefill(prefill);
        }
    }

    /// The node answered a prompt with these beginnings, so its cache holds them.
    pub fn placed(&mut self, node_id: u64, hashes: impl IntoIterator<Item = u64>) {
        hashes.into_iter().for_each(|hash| self.placements.push((node_id, hash)));
    }

    /// An answer was given to its end.
    pub fn answered(&mut self, answer: &Answer) {
        self.answers.push(answer.encode());
    }

    /// A listed node failed before another answered.
    pub fn failed_attempt(&mut self, node_id: u64) {
        if let Some(entry) = self.entry(node_id) {
            entry.news.failed_attempts += 1;
        }
    }

    /// Attempts before this node's answer failed, nodes not known.
    pub fn unknown_attempts(&mut self, node_id: u64, count: u32) {
        if let Some(entry) = self.entry(node_id) {
            entry.news.unknown_attempts = entry.news.unknown_attempts.saturating_add(count);
        }
    }

    /// An open request ended. Without one on the node nothing is counted.
    pub fn close(
        &mut self,
        node_id: u64,
        opened_ms: u64,
        work: Work,
        had_first_token: bool,
        outcome: &Outcome,
    ) {
        let Some(entry) = self.known(node_id) else { return };
        if entry.leave(opened_ms, work, had_first_token) {
            entry.news.add(outcome);
        }
    }

    /// Open requests on the node.
    pub fn in_flight(&self, node_id: u64) -> u32 {
        let place = self.place(node_id).ok();
        place.and_then(|place| self.entries.get(place)).map_or(0, |(_, entry)| entry.in_flight)
    }

    /// Appends an isocost.v1.ObservationBatch and starts a new period; nodes without open requests
    /// are forgotten.
    pub fn encode_batch(&mut self, header: &BatchHeader, now_ms: u64, out: &mut Vec<u8>) {
        put_string(out, 1, header.envoy);
        put_fixed64(out, 2, header.incarnation);
        put_varint(out, 3, header.sequence);
        put_fixed64(out, 4, now_ms);
        put_fixed64(out, TABLE_VERSION, header.table_version);
        put_varint(out, LEAVING, header.leaving.into());
        let decisions = core::mem::take(&mut self.decisions);
        put_varint(out, 7, decisions.picked.into());
        put_varint(out, 8, decisions.no_table.into());
        put_varint(out, 9, decisions.stale_table.into());
        put_varint(out, 10, decisions.no_eligible.into());
        put_varint(out, 11, decisions.host_failure.into());
        put_varint(out, 12, core::mem::take(&mut self.stale_choices).into());
        self.encode_placements(out);
        while let Some(answer) = self.answers.pop() {
            put_bytes(out, 15, &answer);
        }
        let (mut open, mut news) = (Vec::new(), Vec::new());
        self.entries.retain_mut(|(node_id, entry)| {
            entry.encode_open(*node_id, now_ms, &mut open);
            core::mem::take(&mut entry.news).encode(*node_id, &mut news);
            entry.in_flight > 0
        });
        put_string(out, 16, &open);
        put_string(out, 17, &news);
    }

    /// One isocost.v1.Placement for each run of hashes on the same node.
    fn encode_placements(&mut self, out: &mut Vec<u8>) {
        let mut blocks = Vec::new();
        let mut placement = Vec::new();
        while let Some((node_id, hash)) = self.placements.pop() {
            blocks.extend_from_slice(&hash.to_le_bytes());
            if self.placements.oldest().is_some_and(|(next, _)| *next == node_id) {
                continue;
            }
            placement.clear();
            put_fixed64(&mut placement, 1, node_id);
            put_bytes(&mut placement, 2, &blocks);
            put_bytes(out, 14, &placement);
            blocks.clear();
        }
    }

    fn place(&self, node_id: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&node_id, |(id, _)| *id)
    }

    /// The node's entry if it has one.
    fn known(&mut self, node_id: u64) -> Option<&mut Entry> {
        let place = self.place(node_id).ok()?;
        self.entries.get_mut(place).map(|(_, entry)| &mut **entry)
    }

    /// The node's entry, a new one if need be; always Some.
    fn entry(&mut self, node_id: u64) -> Option<&mut Entry> {
        if let Err(place) = self.place(node_id) {
            self.entries.insert(place, (node_id, Box::default()));
        }
        self.known(node_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_dropped_when_nothing_is_open_and_its_news_are_out() {
        let header = BatchHeader {
            envoy: b"e",
            incarnation: 1,
            sequence: 1,
            table_version: 1,
            leaving: false,
        };
        let mut ledger = Ledger::new();
        ledger.open(7, 1000, Work::default());
        ledger.encode_batch(&header, 1100, &mut Vec::new());
        assert_eq!(ledger.entries.len(), 1);
        ledger.reassign(7, 8, 1000, Work::default());
        assert_eq!(ledger.entries.len(), 2);
        ledger.encode_batch(&header, 1200, &mut Vec::new());
        assert_eq!(ledger.entries.len(), 1);
    }
}
