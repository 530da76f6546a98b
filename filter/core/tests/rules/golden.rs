//! The messages as the control plane's own protobuf libraries write and expect them
//! (tests/golden/make.py).

use isocost_core::ledger::{Answer, BatchHeader, Ending, Ledger, Outcome, Prefill};
use isocost_core::pick::Reason;
use isocost_core::roster::Roster;
use isocost_core::stream::Finish;
use isocost_core::table::{Placement, Seen, Table};
use isocost_core::work::Work;
use isocost_core::workers::{Workers, SILENT_MS};
use isocost_core::xds::{NodeIdentity, Response, Subscription, TABLE_TYPE};

use crate::fixtures::{batch, unmeasured};

pub const ROSTER: &[u8] = include_bytes!("../golden/roster.bin");
pub const TABLE: &[u8] = include_bytes!("../golden/table.bin");
pub const RESPONSE: &[u8] = include_bytes!("../golden/response.bin");
pub const BATCH: &[u8] = include_bytes!("../golden/batch.bin");

#[test]
fn the_control_planes_roster_is_read() {
    let roster = Roster::decode(ROSTER).unwrap();
    assert_eq!(roster.version(), 0xfedc_ba98_7654_3210);
    assert_eq!(roster.nodes().len(), 4);
    let node = roster.node(2).unwrap();
    assert_eq!(node.id, 0x8000_0000_0000_0002);
    let text = [&node.address, &node.rack, &node.host].map(String::as_str);
    assert_eq!(text, ["10.0.0.3:8000", "r0", "h1"]);
    assert_eq!(roster.id_at(b"[fd00::1]:8000"), Some(0x8000_0000_0000_0003));
    assert_eq!(roster.slot_of(0x8000_0000_0000_0003), Some(3));
    assert_eq!((node.min_input_tokens, node.max_input_tokens), (2000, 8000));
    let model = &node.models[0];
    assert_eq!((&*model.name, &*model.adapters[0]), ("m", "tuned"));
    assert_eq!((model.kv_bytes_per_token, model.max_length_tokens), (131_072, 32_768));
    assert_eq!(roster.model_name(roster.model(b"b").unwrap()), "m");
}

#[test]
fn the_control_planes_table_is_read() {
    let expected = Table {
        version: 1_790_000_000_123,
        roster_version: 0xfedc_ba98_7654_3210,
        built_at_unix_ms: 1_790_000_000_100,
        weight: vec![1.0, 0.25, 0.0, 0.5],
        entropy: vec![0.5, f32::INFINITY, 0.0, 1.5],
        state: vec![2, 1, 4, 3],
        capacity: vec![1.0, 0.5, 0.0, 2.0],
        pending_tokens: vec![0, 300, 70_000, 1],
        open: vec![1, 2, 3, 4],
        kv_tokens: vec![10, 20, 300, 4_000_000_000],
        token_s: vec![0.0001, 0.0002, 0.0, 0.25],
        request_s: vec![0.5, 0.25, 0.0, 1.0],
        extra_s: vec![0.0, 0.0, 1.5, 0.0],
        kv_capacity_tokens: vec![0.0, 500_000.0, 0.0, 8.0],
        seen: vec![
            Seen { incarnation: 7, sequence: 300, share: 0.75 },
            Seen { incarnation: 8, ..Seen::default() },
        ],
        placements: vec![Placement { node_id: 7, blocks: vec![1, u64::MAX] }],
    };
    assert_eq!(Table::decode(TABLE), Ok(expected));
}

#[test]
fn the_control_plane_reads_our_batch() {
    const NOW: u64 = 1_790_000_000_500;
    let work = Work { prompt_tokens: 1_200, kv_tokens: 1_700 };
    let mut ledger = Ledger::new();
    for opened in [NOW - 2000, NOW - 400, NOW - 300] {
        ledger.open(7, opened, work);
    }
    for (pending_tokens, first_token_us) in [(100_000, 2_000_000), (3, 150_000)] {
        ledger.first_token(7, work, Some(Prefill { pending_tokens, first_token_us }));
    }
    let measured = Outcome {
        ending: Ending::Succeeded,
        first_byte_us: Some(150_000),
        tpot_us: Some(20_000),
        total_us: Some(900_000),
        chunks: 38,
        output_tokens: Some(37),
        finish: Some(Finish::Length),
    };
    ledger.close(7, NOW - 2000, work, true, &measured);
    ledger.unknown_attempts(7, 2);
    for (ending, finish) in [
        (Ending::ClientError, Some(Finish::Stop)),
        (Ending::RateLimited, Some(Finish::Tool)),
        (Ending::ServerError, Some(Finish::Other)),
        (Ending::Reset, None),
        (Ending::ClientAbort, None),
    ] {
        ledger.open(u64::MAX, NOW, work);
        ledger.close(u64::MAX, NOW, work, false, &Outcome { finish, ..unmeasured(ending) });
    }
    ledger.placed(7, [1, u64::MAX]);
    ledger.placed(u64::MAX, [3]);
    ledger.answered(&Answer { user: Some(65_536), model: "m", output_tokens: 37 });
    ledger.answered(&Answer { user: None, model: "", output_tokens: 300 });
    ledger.failed_attempt(u64::MAX);
    for (reason, count) in [
        (Reason::Picked, 3),
        (Reason::NoTable, 1),
        (Reason::StaleTable, 2),
        (Reason::NoEligible, 4),
        (Reason::HostFailure, 5),
    ] {
        (0..count).for_each(|_| ledger.decide(reason));
    }
    (0..6).for_each(|_| ledger.stale_choice());
    let header = BatchHeader {
        envoy: b"edge-1",
        incarnation: 0x1122_3344_5566_7788,
        sequence: 300,
        table_version: 1_790_000_000_123,
        leaving: false,
    };
    let mut out = Vec::new();
    ledger.encode_batch(&header, NOW, &mut out);
    assert_eq!(out, BATCH);
}

#[test]
fn the_control_plane_reads_the_workers() {
    let mut workers = Workers::default();
    for (incarnation, now_ms) in [(1, 0), (2, 0), (3, 0), (1, SILENT_MS), (2, SILENT_MS)] {
        workers.heard(&batch(incarnation, false), now_ms);
    }
    let mut report = Vec::new();
    workers.report(b"edge-1", SILENT_MS + 1, &mut report);
    assert_eq!(report, include_bytes!("../golden/workers.bin"));
}

#[test]
fn discovery_messages_are_those_of_envoys_own_definitions() {
    let mut subscription = Subscription::new(TABLE_TYPE);
    let mut out = Vec::new();
    subscription.subscribe(&NodeIdentity { id: b"edge-1", cluster: b"edge" }, &mut out);
    assert_eq!(out, include_bytes!("../golden/subscribe.bin"));

    let response = Response::decode(RESPONSE).unwrap();
    assert_eq!(response.version_info, b"v7");
    assert_eq!(response.type_url, TABLE_TYPE.as_bytes());
    assert_eq!(response.resource, Some(&b"payload"[..]));

    out.clear();
    subscription.ack(&response, &mut out);
    assert_eq!(out, include_bytes!("../golden/ack.bin"));

    out.clear();
    let refused = Response { version_info: b"v8", nonce: b"n8", ..response };
    subscription.nack(&refused, "the table follows another roster", &mut out);
    assert_eq!(out, include_bytes!("../golden/nack.bin"));
}
