//! Whatever bytes come from outside: nothing panics, overflows or takes long, and what must not
//! matter (the chunks of a body) does not. `make fuzz` runs this for ten minutes each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod fleets;
mod runner;

use isocost_core::asking::Asking;
use isocost_core::config::FilterConfig;
use isocost_core::estimates::Estimates;
use isocost_core::fleet::Fleet;
use isocost_core::head::Head;
use isocost_core::jwt;
use isocost_core::load::Load;
use isocost_core::model_source::Source;
use isocost_core::pick::{Held, Policy, Query, Rules};
use isocost_core::profile::{Api, Scanner};
use isocost_core::roster::Roster;
use isocost_core::stream::AnswerScanner;
use isocost_core::table::Table;
use isocost_core::work::Work;
use isocost_core::workers::Workers;
use isocost_core::xds::Response;
use isocost_core::Rng;

use runner::{fuzz, in_chunks, mutated};

const APIS: [Api; 6] = [
    Api::ChatCompletions,
    Api::Completions,
    Api::Responses,
    Api::Embeddings,
    Api::Messages,
    Api::Other,
];
const BODIES: [&[u8]; 6] = [
    br#"{"model":"m","messages":[{"role":"system","content":"Be short."},{"role":"user","content":
"What is \u00e9\ud83d\ude00?\n"}],"max_tokens":64,"n":2,"stream":true,"user":"u-1"}"#,
    br#" {"messages":[{"content":[{"type":"text","text":"a\\\"\ud800x"},{"type":"image_url",
"image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"input_audio","input_audio":{"data":"BBBB",
"format":"wav"}}],"role":"user"}],"tools":[{"type":"function","function":{"name":"f","parameters":
{"type":"object","properties":{"a":{"enum":[null,-0.5e-3,[],{}]}}}}}],"prompt_cache_key":"k"}"#,
    br#"{"model":"m","prompt":["first","second"],"max_tokens":1.5e1,"best_of":3}"#,
    br#"{"model":"m","prompt":[[1,2,3],[4,5]],"user":"\u0000"}"#,
    br#"{"model":"m","instructions":"i","input":[{"role":"user","content":[{"type":"input_text",
"text":"t"}]}],"max_output_tokens":9,"safety_identifier":"s"}"#,
    br#"{"model":"c","system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
"messages":[{"role":"user","content":"u"}],"max_tokens":1024,"metadata":{"user_id":"x"}}"#,
];
const BODY_WORDS: [&[u8]; 14] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b",",
    b":",
    b"1e999999999",
    b"\xf0\x9f\x98",
    b"\xff",
    b"\"max_tokens\":184467440737095516150",
];
/// More levels than any stack has.
const DEEP_BYTES: usize = 100_000;

fn body(rng: &mut Rng) -> Vec<u8> {
    match rng.u32(0..400) {
        0 => vec![b'['; DEEP_BYTES],
        1 => [br#"{"messages":"#.as_slice(), &vec![b'['; DEEP_BYTES]].concat(),
        2 => br#"{"a":"#.repeat(DEEP_BYTES / 5),
        3 => {
            let text = "word \u{e9} ".repeat(rng.usize(0..20_000));
            format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#).into_bytes()
        }
        _ => mutated(&BODIES, &BODY_WORDS, rng),
    }
}

/// The chunks do not matter, and a profile can be asked for at any byte.
#[test]
fn request_bodies() {
    fuzz("request_bodies", body, |body, rng| {
        let api = APIS[rng.usize(0..APIS.len())];
        let mut whole = Scanner::new(api);
        whole.feed(body);
        let mut parts = Scanner::new(api);
        in_chunks(body, rng, |chunk| {
            parts.feed(chunk);
            let _ = parts.finish();
        });
        assert_eq!(parts.finish(), whole.finish());
        assert_eq!(parts.is_stopped(), whole.is_stopped());
    });
}

/// A valid body that is cut anywhere is a partial one, and never a fault.
#[test]
fn bodies_cut_at_every_byte() {
    for (body, api) in BODIES.iter().flat_map(|body| APIS.map(|api| (body, api))) {
        let mut scanner = Scanner::new(api);
        for byte in *body {
            assert!(!scanner.is_stopped());
            scanner.feed(&[*byte]);
        }
        assert_eq!(scanner.finish().body, isocost_core::profile::Body::Complete);
    }
}

/// What decodes as a fleet also picks, and only nodes that are there.
#[test]
fn fleets() {
    let encoded = |rng: &mut Rng| {
        let (roster, table) = fleets::fleet(rng);
        let length = u32::try_from(roster.len()).unwrap().to_le_bytes();
        [&length[..], &roster, &table].concat()
    };
    fuzz("fleets", encoded, |encoded, rng| {
        let (length, messages) = encoded.split_at(4);
        let length = u32::from_le_bytes(length.try_into().unwrap());
        let (roster, table) = messages.split_at(length as usize);
        // One of the two, or none, is damaged.
        let damaged = |bytes: &[u8], rng: &mut Rng| match rng.u32(0..3) {
            0 => mutated(&[bytes], &[], rng),
            _ => bytes.to_vec(),
        };
        let roster = damaged(roster, rng);
        let table = damaged(table, rng);
        let (Ok(roster), Ok(table)) = (Roster::decode(&roster), Table::decode(&table)) else {
            return;
        };
        for node in roster.nodes() {
            assert!(roster.id_at(node.address.as_bytes()).is_some());
        }
        if let Ok(fleet) = Fleet::build(roster.into(), table) {
            picks(&fleet, rng);
        }
    });
}

fn picks(fleet: &Fleet, rng: &mut Rng) {
    let mut header = Vec::new();
    let mut load = Load::new(rng.u64(0..4));
    load.rebase(fleet);
    let tokens = |rng: &mut Rng| [rng.u32(0..5_000), u32::MAX][usize::from(rng.u32(0..20) == 0)];
    let model = fleet.roster().model(format!("m-{}", rng.u32(0..6)).as_bytes());
    for policy in Policy::ALL {
        for number in 0..8 {
            let rules = Rules {
                policy,
                alternates: rng.usize(..9),
                projection: rng.bool(),
                dispersion: rng.bool(),
            };
            let held: Vec<Held> = (0..rng.usize(..5))
                .map(|_| Held { slot: rng.u32(0..50), tokens: tokens(rng) })
                .collect();
            let query = Query {
                model: model.filter(|_| rng.bool()),
                prompt_tokens: tokens(rng),
                output_tokens: tokens(rng),
                user: rng.bool().then(|| rng.u64(..)),
                prefix_key: rng.bool().then(|| rng.u64(..)),
                held: &held,
            };
            let Some(pick) = fleet.pick(&rules, &query, &load, rng) else { continue };
            assert!(pick.slots().iter().all(|slot| fleet.roster().node(*slot).is_some()));
            fleet.write_destination(&pick, &mut header);
            let node = fleet.roster().node(pick.first()).map_or(0, |node| node.id);
            load.opened(node, pick.work());
            match rng.u32(0..4) {
                0 => load.first_token(node, pick.work()),
                1 => load.closed(node, pick.work(), rng.bool()),
                2 => load.moved(node, rng.u64(0..50), Work::default()),
                _ => load.batch(number),
            }
        }
    }
}

const MESSAGES: [&[u8]; 4] = [
    include_bytes!("../golden/roster.bin"),
    include_bytes!("../golden/table.bin"),
    include_bytes!("../golden/response.bin"),
    include_bytes!("../golden/batch.bin"),
];

#[test]
fn messages() {
    fuzz(
        "messages",
        |rng| mutated(&MESSAGES, &[b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"], rng),
        |bytes, _| {
            let _ = Response::decode(bytes);
            let _ = Roster::decode(bytes);
            let _ = Table::decode(bytes);
            let _ = Estimates::decode(bytes);
            let _ = Head::read(bytes);
            let mut workers = Workers::default();
            workers.heard(bytes, 1);
            assert!(workers.count(1).0 <= 1);
        },
    );
}

const ANSWERS: [&[u8]; 2] = [
    br#"data: {"choices":[{"delta":{"content":"\"completion_tokens\": 99"}}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens": 37,"total_tokens":42}}

data: [DONE]

"#,
    br#"{"id":"c","usage":{"input_tokens":5,"output_tokens":18446744073709551615}}"#,
];

#[test]
fn answers() {
    fuzz(
        "answers",
        |rng| mutated(&ANSWERS, &[b"\"completion_tokens\":", b"99999999999999999999", b"\\"], rng),
        |answer, rng| {
            let event_stream = rng.bool();
            let mut whole = AnswerScanner::new(event_stream);
            whole.feed(answer);
            let mut parts = AnswerScanner::new(event_stream);
            in_chunks(answer, rng, |chunk| parts.feed(chunk));
            assert_eq!(parts.output_tokens(), whole.output_tokens());
            assert_eq!(parts.output_events(), whole.output_events());
            assert_eq!(parts.finish(), whole.finish());
        },
    );
}

/// Headers as the host hands them over, with a token among them.
#[test]
fn headers() {
    let token: &[u8] = b"Bearer e30.eyJtb2RlbCI6ICJpbi10b2tlbiIsICJzdWIiOiAiYm9iIn0.c2ln";
    let mut pairs = 2u32.to_le_bytes().to_vec();
    let headers = [(&b":path"[..], &b"/v1/completions"[..]), (b"authorization", token)];
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        pairs.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    }
    headers.iter().flat_map(|(name, value)| [name, value]).for_each(|text| {
        pairs.extend(*text);
        pairs.push(0);
    });
    let from = [Source::Header(":path".into()), Source::Jwt("model".into()), Source::Body];
    assert!(jwt::claim(token, "model").is_some_and(|model| model == "in-token"));
    fuzz(
        "headers",
        |rng| mutated(&[&pairs, token], &[b".", b"\xff\xff\xff\xff", b"ey", b"="], rng),
        |bytes, _| {
            let _ = Asking::begin(bytes, &from, &from).finish();
            let _ = jwt::claim(bytes, "model");
        },
    );
}

const CONFIG: &[u8] = br#"{"policy":"min_entropy","max_table_age_ms":750,"alternates":3,
"projection":0,"profile_limit_bytes":1000,"model_from":"body,jwt:model","user_from":"header:x"}"#;

#[test]
fn configurations() {
    fuzz(
        "configurations",
        |rng| mutated(&[CONFIG], &[b"\"", b"{", b"99999999999999999999", b"\\u0041"], rng),
        |bytes, _| {
            if let Err(error) = FilterConfig::parse(bytes) {
                assert!(!error.text().is_empty());
            }
        },
    );
}
