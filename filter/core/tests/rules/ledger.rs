//! The ledger is exact, whatever the order of events.

use std::collections::BTreeMap;

use isocost_core::ledger::{BatchHeader, Ending, Ledger, Outcome};
use isocost_core::pick::Reason;
use isocost_core::wire::{Reader, Value};
use proptest::prelude::*;

use crate::fixtures::{property, unmeasured};

/// A NodeObservation's fields by number; a field that is not written is 0.
type Line = BTreeMap<u32, u64>;

const HEADER: BatchHeader<'_> =
    BatchHeader { envoy: b"e", incarnation: 1, sequence: 1, table_version: 1, leaving: false };
/// Nothing of it is written.
const NAMELESS: BatchHeader<'_> =
    BatchHeader { envoy: b"", incarnation: 0, sequence: 0, table_version: 0, leaving: false };

/// The nodes of the next batch.
fn batch(ledger: &mut Ledger, now_ms: u64) -> BTreeMap<u64, Line> {
    let mut bytes = Vec::new();
    ledger.encode_batch(&HEADER, now_ms, &mut bytes);
    let mut nodes = BTreeMap::new();
    let mut reader = Reader::new(&bytes);
    while let Some((number, value)) = reader.field().unwrap() {
        let (6, Value::Bytes(node)) = (number, value) else { continue };
        let mut reader = Reader::new(node);
        let Ok(Some((1, Value::Fixed64(id)))) = reader.field() else { panic!("no id") };
        let mut line = Line::new();
        while let Some((number, value)) = reader.field().unwrap() {
            let Value::Varint(value) = value else { panic!("{value:?}") };
            assert_eq!(line.insert(number, value), None);
        }
        assert_eq!(nodes.insert(id, line), None);
    }
    nodes
}

const IN_FLIGHT: u32 = 2;
const AGES: u32 = 3;
const STARTED: u32 = 4;

#[test]
fn ages_are_the_sum_over_the_open_requests() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000);
    ledger.open(7, 1600);
    let line = &batch(&mut ledger, 2000)[&7];
    assert_eq!((line[&IN_FLIGHT], line[&AGES], line[&STARTED]), (2, 1400, 2));
    let line = &batch(&mut ledger, 2200)[&7];
    assert_eq!((line[&IN_FLIGHT], line[&AGES], line.get(&STARTED)), (2, 1800, None));
}

#[test]
fn a_wrong_opening_time_is_forgotten_when_nothing_is_open() {
    let mut ledger = Ledger::new();
    ledger.open(7, 5000);
    ledger.close(7, 1000, &unmeasured(Ending::Succeeded));
    ledger.open(7, 6000);
    assert_eq!(batch(&mut ledger, 10_000)[&7][&AGES], 4000);
}

#[test]
fn a_node_without_open_requests_and_news_is_not_reported() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000);
    ledger.close(7, 1000, &unmeasured(Ending::Succeeded));
    assert_eq!(batch(&mut ledger, 1100).len(), 1);
    assert_eq!(batch(&mut ledger, 1200).len(), 0);
}

#[test]
fn the_request_belongs_to_the_node_really_used() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000);
    ledger.failed_attempt(7);
    ledger.reassign(7, 8, 1000);
    assert_eq!((ledger.in_flight(7), ledger.in_flight(8)), (0, 1));
    let nodes = batch(&mut ledger, 1500);
    assert_eq!(nodes[&7], Line::from([(4, 1), (11, 1)]));
    assert_eq!(nodes[&8], Line::from([(2, 1), (3, 500), (4, 1)]));
}

#[test]
fn a_late_close_or_move_never_makes_a_count_negative() {
    let mut ledger = Ledger::new();
    ledger.close(7, 1000, &unmeasured(Ending::Succeeded));
    ledger.reassign(7, 8, 1000);
    assert_eq!(batch(&mut ledger, 2000).len(), 0);
    ledger.open(7, 1000);
    ledger.close(7, 1000, &unmeasured(Ending::Succeeded));
    ledger.close(7, 1000, &unmeasured(Ending::Succeeded));
    assert_eq!(batch(&mut ledger, 2000)[&7], Line::from([(4, 1), (5, 1)]));
}

#[test]
fn a_clock_that_steps_back_gives_age_zero() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000);
    assert_eq!(batch(&mut ledger, 400)[&7].get(&AGES), None);
    assert_eq!(batch(&mut ledger, 1400)[&7][&AGES], 400);
}

#[test]
fn decisions_are_counted_per_batch() {
    let mut ledger = Ledger::new();
    ledger.decide(Reason::StaleTable);
    ledger.decide(Reason::HostFailure);
    ledger.stale_choice();
    ledger.stale_choice();
    let mut bytes = Vec::new();
    ledger.encode_batch(&NAMELESS, 0, &mut bytes);
    assert_eq!(bytes, [9 << 3, 1, 11 << 3, 1, 12 << 3, 2]);
    bytes.clear();
    ledger.encode_batch(&NAMELESS, 0, &mut bytes);
    assert!(bytes.is_empty());
}

#[test]
fn the_last_batch_of_a_vm_says_so_before_its_nodes() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000);
    let mut bytes = Vec::new();
    ledger.encode_batch(&BatchHeader { leaving: true, ..NAMELESS }, 0, &mut bytes);
    assert_eq!(bytes[..2], [13 << 3, 1]);
}

#[test]
fn the_ending_is_what_the_node_or_the_client_did() {
    for (status, complete, client_gone, ending) in [
        (Some(200), true, false, Ending::Succeeded),
        (Some(101), true, false, Ending::Succeeded),
        (Some(304), true, true, Ending::Succeeded),
        (Some(400), true, false, Ending::ClientError),
        (Some(429), true, false, Ending::RateLimited),
        (Some(499), true, false, Ending::ClientError),
        (Some(500), true, false, Ending::ServerError),
        (Some(503), true, false, Ending::ServerError),
        (Some(200), false, false, Ending::Reset),
        (Some(200), false, true, Ending::ClientAbort),
        (None, false, false, Ending::Reset),
        (None, false, true, Ending::ClientAbort),
    ] {
        assert_eq!(Ending::of(status, complete, client_gone), ending);
    }
}

const NODES: [u64; 5] = [1, 2, 7, 1 << 63, u64::MAX];

#[derive(Clone, Debug)]
enum Event {
    Open(u64),
    /// Moves or ends the open request of this index, if there are any.
    Reassign(prop::sample::Index, u64),
    Close(prop::sample::Index, Outcome),
    FailedAttempt(u64),
    UnknownAttempts(u64, u32),
    Batch,
}

const ENDINGS: [(Ending, u32); 6] = [
    (Ending::Succeeded, 5),
    (Ending::ClientError, 6),
    (Ending::RateLimited, 7),
    (Ending::ServerError, 8),
    (Ending::Reset, 9),
    (Ending::ClientAbort, 10),
];

fn event() -> impl Strategy<Value = Event> {
    let node = || prop::sample::select(&NODES[..]);
    let time = || prop::option::of(0u64..10_000_000);
    let outcome = (0..ENDINGS.len(), time(), time(), time(), 0u64..50, time()).prop_map(
        |(ending, first_byte_us, tpot_us, total_us, chunks, output_tokens)| Outcome {
            ending: ENDINGS[ending].0,
            first_byte_us,
            tpot_us,
            total_us,
            chunks,
            output_tokens,
        },
    );
    prop_oneof![
        4 => node().prop_map(Event::Open),
        1 => (any::<prop::sample::Index>(), node()).prop_map(|(i, to)| Event::Reassign(i, to)),
        3 => (any::<prop::sample::Index>(), outcome).prop_map(|(i, o)| Event::Close(i, o)),
        1 => node().prop_map(Event::FailedAttempt),
        1 => (node(), 1u32..4).prop_map(|(node, count)| Event::UnknownAttempts(node, count)),
        1 => Just(Event::Batch),
    ]
}

/// The plainest ledger: a list of open requests, and a map of counters per node.
#[derive(Default)]
struct Model {
    open: Vec<(u64, u64)>,
    news: BTreeMap<u64, Line>,
}

impl Model {
    fn count(&mut self, node: u64, field: u32, value: u64) {
        if value > 0 {
            *self.news.entry(node).or_default().entry(field).or_default() += value;
        }
    }

    fn batch(&mut self, now_ms: u64) -> BTreeMap<u64, Line> {
        for (node, opened) in self.open.clone() {
            self.count(node, IN_FLIGHT, 1);
            self.count(node, AGES, now_ms - opened);
        }
        std::mem::take(&mut self.news)
    }
}

proptest! {
    #![proptest_config(property(1))]

    #[test]
    fn the_ledger_agrees_with_a_plain_model(events in prop::collection::vec(event(), 0..200)) {
        let mut ledger = Ledger::new();
        let mut model = Model::default();
        let mut now_ms = 1_790_000_000_000;
        for event in events.into_iter().chain([Event::Batch]) {
            now_ms += 13;
            match event {
                Event::Open(node) => {
                    ledger.open(node, now_ms);
                    model.open.push((node, now_ms));
                    model.count(node, STARTED, 1);
                }
                Event::Reassign(index, to) if !model.open.is_empty() => {
                    let index = index.index(model.open.len());
                    let (from, opened) = model.open[index];
                    ledger.reassign(from, to, opened);
                    model.open[index].0 = to;
                    model.count(to, STARTED, u64::from(from != to));
                }
                Event::Close(index, outcome) if !model.open.is_empty() => {
                    let (node, opened) = model.open.remove(index.index(model.open.len()));
                    ledger.close(node, opened, &outcome);
                    let (_, field) = ENDINGS.iter().find(|(e, _)| *e == outcome.ending).unwrap();
                    model.count(node, *field, 1);
                    for (field, time) in
                        [(12, outcome.first_byte_us), (14, outcome.tpot_us), (16, outcome.total_us)]
                    {
                        model.count(node, field, u64::from(time.is_some()));
                        model.count(node, field + 1, time.unwrap_or(0));
                    }
                    model.count(node, 18, outcome.chunks);
                    model.count(node, 19, outcome.output_tokens.unwrap_or(0));
                }
                Event::Reassign(..) | Event::Close(..) => {}
                Event::FailedAttempt(node) => {
                    ledger.failed_attempt(node);
                    model.count(node, 11, 1);
                }
                Event::UnknownAttempts(node, count) => {
                    ledger.unknown_attempts(node, count);
                    model.count(node, 20, u64::from(count));
                }
                Event::Batch => prop_assert_eq!(batch(&mut ledger, now_ms), model.batch(now_ms)),
            }
            for node in NODES {
                let open = model.open.iter().filter(|(of, _)| *of == node).count();
                prop_assert_eq!(ledger.in_flight(node) as usize, open);
            }
        }
    }
}
