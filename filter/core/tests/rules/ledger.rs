//! The ledger is exact, whatever the order of events.

use std::collections::BTreeMap;

use isocost_core::ledger::{Answer, BatchHeader, Ending, Ledger, Outcome, Prefill};
use isocost_core::pick::Reason;
use isocost_core::stream::Finish;
use isocost_core::wire::{Reader, Value};
use isocost_core::work::Work;

use crate::fixtures::unmeasured;

/// A node's numbers by their places in its two rows, counted through from 1; zeros are left out.
pub type Line = BTreeMap<u32, u64>;

const HEADER: BatchHeader<'_> =
    BatchHeader { envoy: b"e", incarnation: 1, sequence: 1, table_version: 1, leaving: false };
/// Nothing of it is written.
const NAMELESS: BatchHeader<'_> =
    BatchHeader { envoy: b"", incarnation: 0, sequence: 0, table_version: 0, leaving: false };

/// The nodes of the next batch.
pub fn batch(ledger: &mut Ledger, now_ms: u64) -> BTreeMap<u64, Line> {
    let mut bytes = Vec::new();
    ledger.encode_batch(&HEADER, now_ms, &mut bytes);
    let mut nodes = BTreeMap::<u64, Line>::new();
    let mut reader = Reader::new(&bytes);
    while let Some((number, value)) = reader.field().unwrap() {
        let (first, counts, sums) = match number {
            16 => (IN_FLIGHT, 1, 3),
            17 => (STARTED, 17, 7),
            _ => continue,
        };
        let Value::Bytes(rows) = value else { panic!("{value:?}") };
        let size = 8 + 4 * counts + 8 * sums;
        assert_eq!(rows.len() % size, 0);
        for row in rows.chunks(size) {
            let (id, numbers) = row.split_at(8);
            let (narrow, wide) = numbers.split_at(4 * counts);
            let numbers = narrow.chunks(4).chain(wide.chunks(8)).map(little_endian);
            let line = nodes.entry(little_endian(id)).or_default();
            let before = line.len();
            line.extend((first..).zip(numbers).filter(|(_, number)| *number > 0));
            assert!(line.len() > before, "a row that says nothing");
        }
    }
    nodes
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub const IN_FLIGHT: u32 = 1;
pub const AGES: u32 = 2;
pub const PENDING_TOKENS: u32 = 3;
pub const KV_TOKENS: u32 = 4;
pub const STARTED: u32 = 5;
pub const SUCCEEDED: u32 = 6;
pub const CLIENT_ERRORS: u32 = 7;
pub const RATE_LIMITED: u32 = 8;
pub const SERVER_ERRORS: u32 = 9;
pub const RESETS: u32 = 10;
pub const CLIENT_ABORTS: u32 = 11;
pub const FAILED_ATTEMPTS: u32 = 12;
pub const UNKNOWN_ATTEMPTS: u32 = 13;
pub const FIRST_BYTES: u32 = 14;
pub const TPOTS: u32 = 15;
pub const TOTALS: u32 = 16;
pub const PREFILLS: u32 = 17;
/// The first of four.
pub const FINISHES: u32 = 18;
pub const FIRST_BYTE_US: u32 = 22;
pub const TPOT_US: u32 = 23;
pub const TOTAL_US: u32 = 24;
pub const CHUNKS: u32 = 25;
pub const OUTPUT_TOKENS: u32 = 26;
pub const PREFILL_TOKENS: u32 = 27;
pub const PREFILL_US: u32 = 28;

const WORK: Work = Work { prompt_tokens: 1000, kv_tokens: 1500 };

#[test]
fn ages_are_the_sum_over_the_open_requests() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000, Work::default());
    ledger.open(7, 1600, Work::default());
    let line = &batch(&mut ledger, 2000)[&7];
    assert_eq!((line[&IN_FLIGHT], line[&AGES], line[&STARTED]), (2, 1400, 2));
    let line = &batch(&mut ledger, 2200)[&7];
    assert_eq!((line[&IN_FLIGHT], line[&AGES], line.get(&STARTED)), (2, 1800, None));
}

#[test]
fn a_wrong_opening_time_is_forgotten_when_nothing_is_open() {
    let mut ledger = Ledger::new();
    ledger.open(7, 5000, Work::default());
    ledger.close(7, 1000, Work::default(), false, &unmeasured(Ending::Succeeded));
    ledger.open(7, 6000, Work::default());
    assert_eq!(batch(&mut ledger, 10_000)[&7][&AGES], 4000);
}

#[test]
fn a_node_without_open_requests_and_news_is_not_reported() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000, Work::default());
    ledger.close(7, 1000, Work::default(), false, &unmeasured(Ending::Succeeded));
    assert_eq!(batch(&mut ledger, 1100).len(), 1);
    assert_eq!(batch(&mut ledger, 1200).len(), 0);
}

#[test]
fn the_request_belongs_to_the_node_really_used() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000, Work::default());
    ledger.failed_attempt(7);
    ledger.reassign(7, 8, 1000, Work::default());
    assert_eq!((ledger.in_flight(7), ledger.in_flight(8)), (0, 1));
    let nodes = batch(&mut ledger, 1500);
    assert_eq!(nodes[&7], Line::from([(STARTED, 1), (FAILED_ATTEMPTS, 1)]));
    assert_eq!(nodes[&8], Line::from([(IN_FLIGHT, 1), (AGES, 500), (STARTED, 1)]));
}

#[test]
fn a_late_close_or_move_never_makes_a_count_negative() {
    let mut ledger = Ledger::new();
    ledger.close(7, 1000, Work::default(), false, &unmeasured(Ending::Succeeded));
    ledger.reassign(7, 8, 1000, Work::default());
    assert_eq!(batch(&mut ledger, 2000).len(), 0);
    ledger.open(7, 1000, Work::default());
    ledger.close(7, 1000, Work::default(), false, &unmeasured(Ending::Succeeded));
    ledger.close(7, 1000, Work::default(), false, &unmeasured(Ending::Succeeded));
    assert_eq!(batch(&mut ledger, 2000)[&7], Line::from([(STARTED, 1), (SUCCEEDED, 1)]));
}

#[test]
fn a_clock_that_steps_back_gives_age_zero() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000, Work::default());
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
    ledger.open(7, 1000, Work::default());
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

#[test]
fn a_prompt_is_pending_until_its_first_token_and_holds_cache_to_its_end() {
    let mut ledger = Ledger::new();
    let state = |ledger: &mut Ledger| {
        let line = batch(ledger, 2000).remove(&7).unwrap_or_default();
        [PENDING_TOKENS, KV_TOKENS].map(|field| line.get(&field).copied())
    };
    ledger.open(7, 1000, WORK);
    ledger.open(7, 1000, WORK);
    assert_eq!(state(&mut ledger), [Some(2000), Some(3000)]);
    ledger.first_token(7, WORK, None);
    assert_eq!(state(&mut ledger), [Some(1000), Some(3000)]);
    ledger.close(7, 1000, WORK, true, &unmeasured(Ending::Succeeded));
    assert_eq!(state(&mut ledger), [Some(1000), Some(1500)]);
    ledger.close(7, 1000, WORK, false, &unmeasured(Ending::Reset));
    assert_eq!(state(&mut ledger), [None, None]);
}

#[test]
fn work_moves_with_its_request() {
    let mut ledger = Ledger::new();
    ledger.open(7, 1000, WORK);
    ledger.reassign(7, 8, 1000, WORK);
    let nodes = batch(&mut ledger, 2000);
    assert_eq!(nodes[&7], Line::from([(STARTED, 1)]));
    assert_eq!((nodes[&8][&PENDING_TOKENS], nodes[&8][&KV_TOKENS]), (1000, 1500));
}

#[test]
fn first_tokens_give_their_times_and_what_was_pending() {
    let mut ledger = Ledger::new();
    for (pending_tokens, first_token_us) in [(2000, 30_000), (500, 10_000)] {
        ledger.open(7, 1000, WORK);
        ledger.first_token(7, WORK, Some(Prefill { pending_tokens, first_token_us }));
    }
    ledger.first_token(8, WORK, Some(Prefill { pending_tokens: 1, first_token_us: 1 }));
    let nodes = batch(&mut ledger, 2000);
    let prefill = [PREFILLS, PREFILL_TOKENS, PREFILL_US].map(|place| nodes[&7][&place]);
    assert_eq!(prefill, [2, 2500, 40_000]);
    // Nothing is open on it.
    assert_eq!(nodes.get(&8), None);
}

#[test]
fn reasons_are_counted_by_kind() {
    let mut ledger = Ledger::new();
    let kinds = [Finish::Stop, Finish::Length, Finish::Tool, Finish::Other];
    for (times, finish) in (1..).zip(kinds) {
        for _ in 0..times {
            ledger.open(7, 1000, WORK);
            let outcome = Outcome { finish: Some(finish), ..unmeasured(Ending::Succeeded) };
            ledger.close(7, 1000, WORK, true, &outcome);
        }
    }
    let line = &batch(&mut ledger, 2000)[&7];
    assert_eq!([0, 1, 2, 3].map(|kind| line[&(FINISHES + kind)]), [1, 2, 3, 4]);
}

/// The bytes of the batch's fields of this number.
fn parts(ledger: &mut Ledger, wanted: u32) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    ledger.encode_batch(&NAMELESS, 0, &mut bytes);
    let mut parts = Vec::new();
    let mut reader = Reader::new(&bytes);
    while let Some((number, value)) = reader.field().unwrap() {
        match value {
            Value::Bytes(part) if number == wanted => parts.push(part.to_vec()),
            _ => {}
        }
    }
    parts
}

/// The placements of the next batch: each node with its hashes.
fn placements(ledger: &mut Ledger) -> Vec<(u64, Vec<u64>)> {
    let read = |part: Vec<u8>| {
        let mut reader = Reader::new(&part);
        let Ok(Some((1, Value::Fixed64(node)))) = reader.field() else { panic!("no node") };
        let Ok(Some((2, Value::Bytes(packed)))) = reader.field() else { panic!("no blocks") };
        let hash = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        (node, packed.chunks(8).map(hash).collect())
    };
    parts(ledger, 14).into_iter().map(read).collect()
}

#[test]
fn placements_leave_once_by_runs_on_a_node() {
    let mut ledger = Ledger::new();
    ledger.placed(7, [1, 2, 3]);
    ledger.placed(7, [4]);
    ledger.placed(u64::MAX, [u64::MAX]);
    ledger.placed(8, []);
    ledger.placed(7, [1]);
    let wanted = [(7, vec![1, 2, 3, 4]), (u64::MAX, vec![u64::MAX]), (7, vec![1])];
    assert_eq!(placements(&mut ledger), wanted);
    assert!(placements(&mut ledger).is_empty());
}

#[test]
fn the_newest_placements_are_kept() {
    let mut ledger = Ledger::new();
    (0..50).for_each(|node| ledger.placed(node, (0..42).map(|block| node * 42 + block)));
    let kept = placements(&mut ledger);
    let hashes: Vec<u64> = kept.iter().flat_map(|(_, hashes)| hashes.clone()).collect();
    assert_eq!(hashes, (50 * 42 - 2048..50 * 42).collect::<Vec<_>>());
    assert_eq!((kept[0].0, kept.last().unwrap().0), (1, 49));
}

#[test]
fn the_newest_answers_are_kept() {
    let mut ledger = Ledger::new();
    for output_tokens in 1..=300 {
        ledger.answered(&Answer { user: None, model: "m", output_tokens });
    }
    let kept = parts(&mut ledger, 15);
    let tokens = |answer: &[u8]| {
        let mut reader = Reader::new(answer);
        assert_eq!(reader.field(), Ok(Some((2, Value::Bytes(b"m")))));
        let Ok(Some((3, Value::Varint(tokens)))) = reader.field() else { panic!("no tokens") };
        tokens
    };
    assert_eq!(kept.len(), 256);
    assert_eq!(tokens(&kept[0]), 45);
    assert_eq!(tokens(&kept[255]), 300);
    assert!(parts(&mut ledger, 15).is_empty());
}

#[test]
fn a_user_falls_into_one_of_the_buckets_behind_the_first() {
    for (user, bucket) in [(0, 1), (65_535, 65_536), (65_536, 1), (u64::MAX, 65_536)] {
        let mut ledger = Ledger::new();
        ledger.answered(&Answer { user: Some(user), model: "", output_tokens: u64::MAX });
        let answer = &parts(&mut ledger, 15)[0];
        let mut reader = Reader::new(answer);
        assert_eq!(reader.field(), Ok(Some((1, Value::Varint(bucket)))));
        assert_eq!(reader.field(), Ok(Some((3, Value::Varint(u32::MAX.into())))));
    }
}
