//! The last usage of an answer is found, whatever the chunking.

use isocost_core::stream::AnswerScanner;
use proptest::prelude::*;

use crate::fixtures::property;

const STREAM: &[u8] = br#"data: {"id":"c","choices":[{"index":0,"delta":{"content":"\"completion_tokens\": 99"},"finish_reason":null}],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}

data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens": 37,"completion_tokens_details":{"reasoning_tokens":0}}}

data: [DONE]

"#;

fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<u64> {
    let mut scanner = AnswerScanner::new(false);
    pieces.into_iter().for_each(|piece| scanner.feed(piece));
    scanner.output_tokens()
}

fn whole(text: &str) -> Option<u64> {
    scan([text.as_bytes()])
}

#[test]
fn the_last_usage_wins() {
    assert_eq!(scan([STREAM]), Some(37));
}

#[test]
fn usage_is_found_wherever_the_stream_is_cut() {
    for cut in 0..=STREAM.len() {
        assert_eq!(scan([&STREAM[..cut], &STREAM[cut..]]), Some(37), "cut at {cut}");
        for second in cut..=STREAM.len().min(cut + 40) {
            let pieces = [&STREAM[..cut], &STREAM[cut..second], &STREAM[second..]];
            assert_eq!(scan(pieces), Some(37), "cut at {cut} and {second}");
        }
    }
    assert_eq!(scan(STREAM.chunks(1)), Some(37));
    assert_eq!(scan(STREAM.chunks(1).flat_map(|byte| [byte, &[]])), Some(37));
}

#[test]
fn both_names_count() {
    assert_eq!(whole(r#"{"usage":{"input_tokens":9,"output_tokens":12}}"#), Some(12));
    assert_eq!(whole(r#"{"usage":{"completion_tokens":4}}"#), Some(4));
    assert_eq!(whole(r#""output_tokens":1}  "output_tokens":15}"#), Some(15));
}

#[test]
fn white_space_is_json_s() {
    assert_eq!(whole("{\"completion_tokens\" \t:\r\n 5 }"), Some(5));
}

#[test]
fn what_is_no_whole_number_does_not_count() {
    for value in ["null", "\"5\"", "-5", "5.5", "5e3", "12345678901", "{}", "5"] {
        // The last one has not ended yet: it may be the beginning of 50.
        assert_eq!(whole(&format!(r#"{{"completion_tokens":{value}"#)), None, "{value}");
    }
    assert_eq!(whole(r#"{"completion_tokens":0,"#), Some(0));
    assert_eq!(whole(r#"{"completion_tokens":9999999999}"#), Some(9_999_999_999));
}

#[test]
fn a_value_that_does_not_count_leaves_the_one_before() {
    assert_eq!(whole(r#""completion_tokens":5,"completion_tokens":null}"#), Some(5));
}

#[test]
fn similar_keys_do_not_count() {
    for key in ["xcompletion_tokens", "completion_tokens_details", "prompt_tokens", "put_tokens"] {
        assert_eq!(whole(&format!(r#"{{"{key}":5}}"#)), None, "{key}");
    }
    assert_eq!(whole(r#"completion_tokens":5}"#), None);
    assert_eq!(whole(r#""completion__tokens":5}"#), None);
}

#[test]
fn generated_text_cannot_pose_as_usage() {
    assert_eq!(whole(r#"{"content":"\"completion_tokens\": 7, \"output_tokens\":8,"}"#), None);
}

/// Finds the number in the plainest way.
fn naive(text: &[u8]) -> Option<u64> {
    let mut found = None;
    for start in 0..text.len() {
        for key in [&b"\"completion_tokens\""[..], b"\"output_tokens\""] {
            let Some(rest) = text[start..].strip_prefix(key) else { continue };
            let rest = rest.trim_ascii_start();
            let Some(rest) = rest.strip_prefix(b":") else { continue };
            let rest = rest.trim_ascii_start();
            let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            match rest.get(len) {
                None | Some(b'.' | b'e' | b'E') => {}
                Some(_) if len == 0 || len > 10 => {}
                Some(_) => {
                    found = Some(std::str::from_utf8(&rest[..len]).unwrap().parse().unwrap())
                }
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(property(4))]

    #[test]
    fn any_text_in_any_chunking_gives_what_a_plain_search_gives(
        parts in prop::collection::vec(prop_oneof![
            Just(b"\"completion_tokens\"".to_vec()),
            Just(b"\"output_tokens\":".to_vec()),
            Just(b"\"completion".to_vec()),
            Just(b"_".to_vec()),
            Just(b"tokens\"".to_vec()),
            Just(b":".to_vec()),
            Just(b" ".to_vec()),
            (0u64..99_999_999_999).prop_map(|number| number.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..12),
        ], 0..24),
        sizes in prop::collection::vec(0usize..30, 1..20),
    ) {
        let text = parts.concat();
        let mut rest = &text[..];
        let mut pieces = Vec::new();
        for size in sizes {
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        pieces.push(rest);
        prop_assert_eq!(scan(pieces), naive(&text));
    }
}
