//! The answer to a request for a model that is not served.

use isocost_core::not_found::not_found_body;
use proptest::prelude::*;
use serde_json::{json, Value};

use crate::fixtures::property;

fn body(asked: &[u8], served: &[&str]) -> Value {
    serde_json::from_slice(&not_found_body(asked, &mut served.iter().copied())).unwrap()
}

fn message(asked: &[u8], served: &[&str]) -> String {
    body(asked, served)["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn it_has_openai_s_shape() {
    let expected = json!({"error": {
        "message": "The model 'x' does not exist. Served here: a, b",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }});
    assert_eq!(body(b"x", &["a", "b"]), expected);
}

#[test]
fn names_are_escaped_and_cut() {
    assert!(message("\"\\ä".as_bytes(), &["q\""]).contains("'\"\\ä'"));
    assert!(message(b"a\n\x1fb", &["q\"\t"]).ends_with("here: q\" "));
    assert!(message(b"a\n\x1fb", &["m"]).contains("'a  b'"));
    assert!(message(b"a\xffb\xe4", &["m"]).contains("'a?b?'"));
    assert_eq!(message(&[b'x'; 1000], &[]).matches('x').count(), 256 + 1);
    let many = ["m"; 50];
    assert!(message(b"x", &many).ends_with(&format!(": m{}", ", m".repeat(19))));
}

proptest! {
    #![proptest_config(property(4))]

    #[test]
    fn it_is_json_whatever_was_asked_for(asked in prop::collection::vec(any::<u8>(), 0..300)) {
        let text: String = match std::str::from_utf8(&asked[..asked.len().min(256)]) {
            Ok(text) => text.replace(|c: char| c < ' ', " "),
            Err(_) => asked[..asked.len().min(256)].iter().map(|byte| match byte {
                ..b' ' => ' ',
                0x80.. => '?',
                _ => char::from(*byte),
            }).collect(),
        };
        let expected = format!("The model '{text}' does not exist. Served here: m");
        prop_assert_eq!(message(&asked, &["m"]), expected);
    }
}
