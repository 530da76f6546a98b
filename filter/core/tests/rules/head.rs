//! An answer's headers are read out of one piece, and a broken piece says nothing.

use isocost_core::head::Head;
use proptest::prelude::*;

/// As Envoy hands a header map over.
fn pairs(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = (headers.len() as u32).to_le_bytes().to_vec();
    for (name, value) in headers {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
    }
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend(text.bytes());
        bytes.push(0);
    }
    bytes
}

#[test]
fn a_stream_of_a_node_is_known_as_one() {
    let head = Head::read(&pairs(&[
        (":status", "200"),
        ("server", ""),
        ("content-type", "text/event-stream; charset=utf-8"),
        ("x-envoy-upstream-service-time", "17"),
        ("x-envoy-attempt-count", "2"),
    ]));
    let wanted = Head {
        status: Some(200),
        event_stream: true,
        has_usage: true,
        timed_by_envoy: true,
        attempts: Some(2),
    };
    assert_eq!(head, wanted);
}

#[test]
fn json_can_have_usage_and_other_answers_cannot() {
    for (content_type, has_usage) in [
        ("application/json", true),
        ("application/json; charset=utf-8", true),
        ("text/plain", false),
        ("", false),
    ] {
        let head = Head::read(&pairs(&[(":status", "503"), ("content-type", content_type)]));
        let wanted = Head { status: Some(503), has_usage, ..Head::default() };
        assert_eq!(head, wanted, "{content_type}");
    }
}

#[test]
fn an_attempt_count_that_is_no_number_is_not_known() {
    for count in ["", "x", "-1", "1.0", "99999999999"] {
        let head = Head::read(&pairs(&[("x-envoy-attempt-count", count)]));
        assert_eq!(head, Head::default(), "{count}");
    }
}

#[test]
fn a_status_that_is_no_number_is_none() {
    for text in ["", "2x0", "-1", "99999"] {
        assert_eq!(Head::read(&pairs(&[(":status", text)])).status, None, "{text}");
    }
}

#[test]
fn what_is_cut_off_is_not_there() {
    let whole = pairs(&[(":status", "200"), ("content-type", "application/json")]);
    for len in 0..whole.len() {
        let head = Head::read(&whole[..len]);
        assert!(!head.has_usage);
        assert!(head.status.is_none() || head.status == Some(200));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        Head::read(&bytes);
    }

    #[test]
    fn no_count_makes_it_fail(count in any::<u32>()) {
        let mut bytes = pairs(&[(":status", "200")]);
        bytes[..4].copy_from_slice(&count.to_le_bytes());
        Head::read(&bytes);
    }
}
