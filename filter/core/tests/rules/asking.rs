//! What a request asks for, from its headers and its body, in the configured order.

use isocost_core::asking::{Asked, Asking};
use isocost_core::model_source::parse_sources;
use isocost_core::profile::{name_hash, Api};
use isocost_core::roster::{NodeModel, Roster, RosterNode};

use crate::fixtures::node;

const BODY: &[u8] = br#"{"model": "in-body", "user": "ann", "messages": []}"#;
/// {"model": "in-token", "sub": "bob"}
const TOKEN: &str = "Bearer e30.eyJtb2RlbCI6ICJpbi10b2tlbiIsICJzdWIiOiAiYm9iIn0.c2ln";

fn pairs(headers: &[(&str, &str)]) -> Vec<u8> {
    let number = |number: usize| (number as u32).to_le_bytes();
    let mut pairs = number(headers.len()).to_vec();
    let texts = || headers.iter().flat_map(|(name, value)| [name, value]);
    texts().for_each(|text| pairs.extend(number(text.len())));
    texts().for_each(|text| {
        pairs.extend(text.as_bytes());
        pairs.push(0);
    });
    pairs
}

fn asked(headers: &[(&str, &str)], model_from: &str, user_from: &str, body: &[u8]) -> Asked {
    let sources = |text: &str| parse_sources(text.as_bytes()).unwrap();
    let mut asking = Asking::begin(&pairs(headers), &sources(model_from), &sources(user_from));
    body.chunks(7).for_each(|piece| asking.feed(piece));
    asking.finish()
}

fn model(headers: &[(&str, &str)], from: &str, body: &[u8]) -> Option<String> {
    let name = asked(headers, from, "body", body).model?;
    Some(String::from_utf8(name).unwrap())
}

#[test]
fn the_first_source_that_has_a_model_counts() {
    let all = [("x-model", "in-header"), ("authorization", TOKEN)];
    for (from, expected) in [
        ("header:x-model,body", "in-header"),
        ("body,header:x-model", "in-body"),
        ("jwt:model,header:x-model,body", "in-token"),
        ("header:absent,jwt:absent,body", "in-body"),
        ("header:absent,jwt:model,body", "in-token"),
    ] {
        assert_eq!(model(&all, from, BODY).as_deref(), Some(expected), "{from}");
    }
    assert_eq!(model(&all, "body,jwt:model", b"").as_deref(), Some("in-token"));
    assert_eq!(model(&all, "header:absent", BODY), None);
    assert_eq!(model(&[("x-model", "")], "header:x-model,body", BODY).as_deref(), Some("in-body"));
}

#[test]
fn sources_that_name_different_models_are_noticed() {
    let names = |names: &[&str]| names.iter().copied().map(String::from).collect();
    let model = NodeModel {
        name: String::from("in-body"),
        aliases: names(&["alias"]),
        adapters: names(&["adapter"]),
        ..NodeModel::default()
    };
    let named = vec![RosterNode { models: vec![model], ..node(0, "h0") }];
    let roster = Roster::new(1, named).unwrap();
    let unnamed = Roster::new(1, vec![node(0, "h0")]).unwrap();
    let contradict = |header: &str, from: &str, body: &[u8], roster: &Roster| {
        asked(&[("x-model", header), ("authorization", TOKEN)], from, "body", body)
            .names_two_models(roster)
    };
    for from in ["header:x-model,body", "body,header:x-model"] {
        assert!(contradict("other", from, BODY, &roster), "{from}");
        assert!(contradict("adapter", from, BODY, &roster), "{from}");
        assert!(contradict("alias", from, BODY, &unnamed), "{from}");
        for same in ["in-body", "alias", ""] {
            assert!(!contradict(same, from, BODY, &roster), "{from}, {same}");
        }
        assert!(!contradict("other", from, b"{}", &roster), "{from}");
    }
    // The first two agree.
    assert!(contradict("in-body", "header:x-model,body,jwt:model", BODY, &roster));
    assert!(contradict("other", "header:x-model,jwt:model", BODY, &roster));
    // Only sources that are asked count.
    assert!(!contradict("other", "header:x-model,jwt:absent", BODY, &roster));
}

#[test]
fn a_user_is_the_same_wherever_the_name_stands() {
    let user = |headers: &[(&str, &str)], from| asked(headers, "body", from, BODY).user;
    let ann = name_hash(b"ann");
    assert!(ann.is_some());
    assert_eq!(user(&[], "header:x-user,body"), ann);
    assert_eq!(user(&[("x-user", "ann")], "header:x-user"), ann);
    assert_eq!(user(&[("authorization", TOKEN)], "jwt:sub,body"), name_hash(b"bob"));
    assert_eq!(user(&[], "header:x-user"), None);
}

#[test]
fn path_and_length_are_noted_and_what_was_read_is_counted() {
    let headers = [(":path", "/v1/chat/completions?a=b"), ("content-length", "51")];
    let known = asked(&headers, "body", "body", BODY);
    assert_eq!((known.api, known.content_length), (Api::ChatCompletions, Some(51)));
    assert_eq!(known.read_bytes, 51);
    assert!(known.profile.is_some());
    let none = asked(&[("content-length", "-1")], "body", "body", b"");
    assert_eq!((none.api, none.content_length, none.read_bytes), (Api::Other, None, 0));
    assert!(none.profile.is_none());
}

#[test]
fn nothing_waits_for_a_body_that_need_not_come() {
    let waits = |headers: &[(&str, &str)]| Asking::begin(&pairs(headers), &[], &[]).may_have_body();
    assert!(waits(&[(":method", "POST")]));
    assert!(waits(&[(":method", "PUT"), ("upgrades", "1")]));
    for method in ["GET", "HEAD", "CONNECT"] {
        assert!(!waits(&[(":method", method), ("content-length", "10")]), "{method}");
    }
    assert!(!waits(&[(":method", "POST"), ("upgrade", "websocket")]));
}

#[test]
fn headers_need_not_be_text() {
    let mut headers = pairs(&[("x-model", "??"), (":path", "??")]);
    headers.iter_mut().filter(|byte| **byte == b'?').for_each(|byte| *byte = 0xa1);
    let from = parse_sources(b"header:x-model").unwrap();
    for end in 0..=headers.len() {
        Asking::begin(&headers[..end], &from, &from).finish();
    }
    assert_eq!(Asking::begin(&headers, &from, &from).finish().model, Some(vec![0xa1, 0xa1]));
}
