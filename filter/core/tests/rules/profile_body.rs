//! Any body in any chunks: nothing panics, and the chunks do not matter.

use isocost_core::profile::{Api, Body, Fault, Profile, Scanner, MAX_DEPTH};
use proptest::prelude::*;

use crate::fixtures::property;
use crate::profile_requests::{request, Request};
use crate::profile_shapes::{counts, profile};

const BODY: &str = r#" {"model":"m\u00e9\ud83d\ude00","messages":[{"role":"system","content":"Sei kurz; 简短。"},
{"content":[{"type":"text","text":"a\\\"\n\ud800x\udc00\u4e2d"},{"type":"image_url","image_url":
{"url":"data:,AAAA"}}],"role":"user"}],"max_tokens":1.5e1,"stream":true,"user":"u\u0000",
"tools":[{"a":-0.5,"b":[null,{"c":"\t"}]}],"x":[[],{}]} "#;

/// The profile of a body that comes in chunks of these sizes, again and again.
fn in_chunks(api: Api, body: &[u8], sizes: &[usize]) -> Profile {
    let mut scanner = Scanner::new(api);
    let mut rest = body;
    for size in sizes.iter().cycle() {
        let (chunk, tail) = rest.split_at((*size).min(rest.len()));
        scanner.feed(chunk);
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    scanner.finish()
}

fn chat(body: &[u8]) -> Profile {
    profile(Api::ChatCompletions, body)
}

#[test]
fn chunks_do_not_matter_wherever_they_end() {
    let whole = chat(BODY.as_bytes());
    assert_eq!(whole.body, Body::Complete);
    assert_eq!(whole.model.as_deref(), Some("m\u{e9}\u{1f600}"));
    assert_eq!(whole.text, counts(&["Sei kurz; 简短。", "a\\\"\n\u{fffd}x\u{fffd}\u{4e2d}"]));
    let bytes = BODY.as_bytes();
    for cut in 0..=bytes.len() {
        let mut scanner = Scanner::new(Api::ChatCompletions);
        scanner.feed(&bytes[..cut]);
        // Looking does not change anything.
        let partial = scanner.finish();
        assert!(partial.body == Body::Partial || cut >= bytes.len() - 1, "cut at {cut}");
        scanner.feed(&bytes[cut..]);
        assert_eq!(scanner.finish(), whole, "cut at {cut}");
        assert_eq!(partial, in_chunks(Api::ChatCompletions, &bytes[..cut], &[1]), "cut at {cut}");
    }
}

#[test]
fn all_bytes_of_a_body_in_uneven_chunks_are_seen() {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{}"}}],"model":"m"}}"#,
        "word ".repeat(5_036)
    );
    let body = body.as_bytes();
    let profile = in_chunks(Api::ChatCompletions, body, &[8192]);
    assert_eq!(profile.text.total(), 25_180);
    assert_eq!(profile.model.as_deref(), Some("m"));
}

#[test]
fn what_is_no_json_object_stops_at_once() {
    let form: &[u8] = b"--boundary\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm";
    for body in [form, b"[1]", b"\"text\"", b"5", b"\xa1\xb1", b"\xef\xbb\xbf{}", b"\0{", b"}"] {
        let mut scanner = Scanner::new(Api::ChatCompletions);
        scanner.feed(body);
        assert!(scanner.is_stopped());
        scanner.feed(br#"{"model":"m"}"#);
        assert_eq!(scanner.finish(), Profile { body: Body::NotJson, ..chat(b"{}") });
    }
    for body in [&b""[..], b" \r\n\t"] {
        assert_eq!(chat(body).body, Body::Partial);
    }
}

#[test]
fn deep_nesting_is_refused_and_what_came_before_is_known() {
    for bracket in ["[", "{\"a\":"] {
        let body = format!(r#"{{"model":"m","x":{}"#, bracket.repeat(100_000));
        let profile = chat(body.as_bytes());
        assert_eq!(profile.body, Body::Malformed(Fault::TooDeep));
        assert_eq!(profile.model.as_deref(), Some("m"));
    }
    assert_eq!(chat("[".repeat(100_000).as_bytes()).body, Body::NotJson);
    let nested = |depth: usize| {
        let body = format!("{{\"tools\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        chat(body.as_bytes()).body
    };
    assert_eq!(nested(MAX_DEPTH), Body::Complete);
    assert_eq!(nested(MAX_DEPTH + 1), Body::Malformed(Fault::TooDeep));
}

#[test]
fn what_is_not_utf_8_is_refused_and_what_came_before_is_known() {
    for bytes in [
        &b"\xa1"[..],
        b"\xb1",
        b"\xa1\xb1",
        b"\xff",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe4\xb8",
        b"\xe4\xb8\"",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf0\x9f\x98x",
    ] {
        let before = br#"{"model":"m","messages":[{"role":"user","content":"fine "#;
        let body = [before, bytes, br#" more"}]}"#].concat();
        let profile = chat(&body);
        assert_eq!(profile.body, Body::Malformed(Fault::NotUtf8), "{bytes:x?}");
        assert_eq!(profile.model.as_deref(), Some("m"));
        assert_eq!(profile.text, counts(&["fine "]));
        assert_eq!(in_chunks(Api::ChatCompletions, &body, &[1]), profile);
        // Nor anywhere else in the body.
        for place in [b"{\"x".as_slice(), b"{\"x\":\""] {
            let body = [place, bytes, b"\""].concat();
            assert_eq!(chat(&body).body, Body::Malformed(Fault::NotUtf8), "{bytes:x?}");
        }
    }
    assert_eq!(chat(b"{\xa1").body, Body::Malformed(Fault::Syntax));
}

#[test]
fn hostile_strings_are_refused() {
    for text in [r"\x", r"\u12", r"\u12g4", r"\u+123", r"\U0041", "\n", "\0", "\x1f", r"\ud800\u1"]
    {
        let body = format!(r#"{{"user":"{text}"}}"#);
        assert_eq!(chat(body.as_bytes()).body, Body::Malformed(Fault::Syntax), "{text:?}");
    }
}

#[test]
fn halves_of_characters_stand_for_nothing() {
    for (text, meant) in [
        (r"\ud800", "\u{fffd}"),
        (r"\udc00", "\u{fffd}"),
        (r"\ud800a", "\u{fffd}a"),
        (r"\ud800\n", "\u{fffd}\n"),
        (r"\ud800\u0041", "\u{fffd}A"),
        (r"\ud800\ud800\udc00", "\u{fffd}\u{10000}"),
        (r"\udbff\udfff\udfff", "\u{10ffff}\u{fffd}"),
    ] {
        let body = format!(r#"{{"model":"{text}"}}"#);
        assert_eq!(chat(body.as_bytes()).model.as_deref(), Some(meant), "{text}");
        assert_eq!(in_chunks(Api::Other, body.as_bytes(), &[1]).model.as_deref(), Some(meant));
    }
}

#[test]
fn grammar_is_json_s() {
    for body in [
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":[1,]}",
        "{\"a\":[,1]}",
        "{\"a\":[1 2]}",
        "{\"a\":1]",
        "{\"a\":[1}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":tru}",
        "{\"a\":True}",
        "{\"a\":nulll}",
        "{}{}",
        "{} x",
        "{\"a\":1:2}",
        "{1:2}",
        "{\"a\"::1}",
        "{\"a\":1,,\"b\":2}",
        "{\"a\":Infinity}",
        "{/**/}",
    ] {
        assert_eq!(chat(body.as_bytes()).body, Body::Malformed(Fault::Syntax), "{body}");
    }
}

#[test]
fn a_scanner_is_small_and_does_not_grow() {
    // Three times 40 blocks and 64 levels, and the like: far below a page.
    assert!(size_of::<Scanner>() <= 2_048, "{}", size_of::<Scanner>());
    assert!(size_of::<Profile>() <= 256, "{}", size_of::<Profile>());
}

proptest! {
    #![proptest_config(property(2))]

    #[test]
    fn random_bytes_do_no_harm(
        body in prop::collection::vec(any::<u8>(), 0..200),
        sizes in prop::collection::vec(1usize..9, 1..5),
    ) {
        let body = [b"{\"model\":".as_slice(), &body].concat();
        prop_assert_eq!(in_chunks(Api::Responses, &body, &sizes), profile(Api::Responses, &body));
    }

    #[test]
    fn valid_bodies_may_come_in_any_chunks(
        Request { api, body, .. } in request(),
        sizes in prop::collection::vec(1usize..40, 1..8),
    ) {
        let whole = profile(api, body.as_bytes());
        prop_assert_eq!(whole.body, Body::Complete);
        prop_assert_eq!(in_chunks(api, body.as_bytes(), &sizes), whole);
    }

    #[test]
    fn broken_bodies_may_come_in_any_chunks(
        Request { api, body, .. } in request(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
        sizes in prop::collection::vec(1usize..40, 1..8),
    ) {
        let mut body = body.into_bytes();
        for (place, byte) in edits {
            let place = place.index(body.len());
            body[place] = byte;
        }
        body.truncate(end.index(body.len() * 2).max(1));
        prop_assert_eq!(in_chunks(api, &body, &sizes), profile(api, &body));
    }
}
