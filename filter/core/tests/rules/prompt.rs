//! How many tokens a prompt is.

use isocost_core::profile::{estimate_tokens, Api, Profile, Scanner, DEFAULT_COEFFICIENTS};
use isocost_core::prompt::prompt_tokens;

use crate::profile_shapes::profile;

fn tokens(profile: &Profile, read: usize, length: Option<u64>) -> u32 {
    prompt_tokens(Some(profile), &DEFAULT_COEFFICIENTS, read as u64, length)
}

#[test]
fn text_tools_messages_and_pictures_count() {
    let read = |body: &str| {
        let profile = profile(Api::ChatCompletions, body.as_bytes());
        tokens(&profile, body.len(), Some(body.len() as u64))
    };
    let text = "some words ".repeat(100);
    let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
    let one = read(&format!(r#"{{"messages":[{message}]}}"#));
    // 900 letters and the message's own.
    assert_eq!(one, (900.0 * DEFAULT_COEFFICIENTS.letters + 4.0).ceil() as u32);
    let two = read(&format!(r#"{{"messages":[{message},{message}]}}"#));
    assert!(two.abs_diff(2 * one) <= 1, "{two}");
    let tools = r#"[{"name":"f","description":"finds"}]"#;
    let with_tools = read(&format!(r#"{{"tools":{tools},"messages":[{message}]}}"#));
    assert!((one + 10..one + 30).contains(&with_tools), "{with_tools}");
    let picture = r#"{"role":"user","content":[{"type":"image_url","image_url":"https://x"}]}"#;
    assert_eq!(read(&format!(r#"{{"messages":[{picture}]}}"#)), 769);
}

#[test]
fn token_ids_are_counted_as_they_are() {
    let ids = vec!["1234"; 500].join(",");
    let body = format!(r#"{{"prompt":[{ids}]}}"#);
    let profile = profile(Api::Completions, body.as_bytes());
    assert_eq!(profile.token_ids, 500);
    assert_eq!(tokens(&profile, body.len(), None), 500 + profile.messages * 4);
}

#[test]
fn of_a_body_that_was_read_in_part_the_rest_counts_alike() {
    let text = "some words ".repeat(10_000);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let whole = tokens(&profile(Api::ChatCompletions, body.as_bytes()), body.len(), None);
    let mut scanner = Scanner::new(Api::ChatCompletions);
    scanner.feed(&body.as_bytes()[..20_000]);
    let part = scanner.finish();
    let estimated = tokens(&part, 20_000, Some(body.len() as u64));
    assert!(estimated.abs_diff(whole) < whole / 100, "{estimated} {whole}");
    let known = estimate_tokens(&part.text, &DEFAULT_COEFFICIENTS) + 4.0;
    assert_eq!(tokens(&part, 20_000, None), known.ceil() as u32);
}

#[test]
fn without_a_prompt_the_length_stands_for_it() {
    let rerank = br#"{"model":"m","documents":["abcdefgh"]}"#;
    let of = |body: &[u8], length| tokens(&profile(Api::Other, body), body.len(), length);
    assert_eq!(of(rerank, None), rerank.len().div_ceil(4) as u32);
    assert_eq!(of(rerank, Some(400_000)), 100_000);
    assert_eq!(of(b"--boundary", Some(400)), 100);
    // A sound file of 10 MB is no prompt of 2.5 million tokens.
    assert_eq!(of(b"--boundary", Some(10_000_000)), 4096);
    assert_eq!(of(b"", None), 0);
}

#[test]
fn no_length_and_no_count_overflows() {
    let profile = profile(Api::ChatCompletions, br#"{"messages":[{"content":"a"}"#);
    assert_eq!(tokens(&profile, 1, Some(u64::MAX)), 10_000_000);
    assert!(tokens(&profile, 0, Some(0)) > 0);
    assert!(tokens(&profile, usize::MAX, Some(1)) > 0);
}

#[test]
fn of_a_body_that_is_not_read_the_length_is_known() {
    let unread = |length| prompt_tokens(None, &DEFAULT_COEFFICIENTS, 0, length);
    assert_eq!((unread(Some(4_000)), unread(None), unread(Some(0))), (1_000, 0, 0));
}

/// A picture of 5 MB, of which the limit lets pass 256 KiB, in each API's shape.
#[test]
fn a_picture_is_one_however_large_it_is() {
    let data = "iVBORw0KGgo".repeat(500_000);
    let text = "some words ".repeat(20);
    let asks = format!(r#"{{"type":"text","text":"{text}"}}"#);
    let shapes = [
        (Api::ChatCompletions, r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,"#),
        (Api::Messages, r#"{"type":"image","source":{"type":"base64","data":""#),
    ];
    for (api, picture) in shapes {
        let body = format!(r#"{{"messages":[{{"role":"user","content":[{asks},{picture}{data}"#);
        let mut scanner = Scanner::new(api);
        scanner.feed(&body.as_bytes()[..262_144]);
        let profile = scanner.finish();
        let whole = tokens(&profile, 262_144, Some(body.len() as u64));
        assert_eq!(whole, (180.0 * DEFAULT_COEFFICIENTS.letters + 769.0).ceil() as u32);
    }
    // Behind a picture that was read the rest counts by what was read, picture and text.
    let picture = format!(r#"{{"type":"image_url","image_url":"{}"}}"#, &data[..100_000]);
    let body = format!(r#"{{"messages":[{{"content":[{picture},{asks},"#);
    let profile = profile(Api::ChatCompletions, body.as_bytes());
    let whole = tokens(&profile, body.len(), Some(10 * body.len() as u64));
    assert!((8_000..9_000).contains(&whole), "{whole}");
}
