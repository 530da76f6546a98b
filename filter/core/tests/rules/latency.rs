//! What counts as time to first byte and as time per output token.

use isocost_core::latency::{is_event_stream, Timing};

/// An answer to a request of time 1,000 with chunks at these times.
fn answer(event_stream: bool, chunks: &[u64]) -> Timing {
    let mut timing = Timing::start(1_000);
    timing.answered(event_stream);
    for &now in chunks {
        timing.chunk(now);
    }
    timing
}

#[test]
fn time_per_token_is_the_mean_gap_between_chunks() {
    let timing = answer(true, &[5_000, 6_000, 9_000]);
    assert_eq!(timing.first_byte_us(1), Some(4_000));
    assert_eq!(timing.tpot_us(None), Some(2_000));
    assert_eq!((timing.chunks(), timing.total_us()), (3, Some(8_000)));
}

#[test]
fn usage_says_how_many_tokens_the_chunks_held() {
    assert_eq!(answer(true, &[5_000, 6_000, 9_000]).tpot_us(Some(9)), Some(500));
}

#[test]
fn one_token_has_no_time_per_token() {
    assert_eq!(answer(true, &[5_000, 6_000]).tpot_us(Some(1)), None);
    assert_eq!(answer(true, &[5_000, 6_000]).tpot_us(Some(0)), None);
    assert_eq!(answer(true, &[5_000]).tpot_us(Some(40)), None);
    assert_eq!(answer(true, &[]).tpot_us(None), None);
}

#[test]
fn an_answer_in_one_piece_has_only_a_total() {
    let timing = answer(false, &[5_000, 5_010]);
    assert_eq!((timing.first_byte_us(1), timing.tpot_us(Some(40))), (None, None));
    assert_eq!(timing.total_us(), Some(4_010));
    assert_eq!(answer(false, &[]).total_us(), None);
}

#[test]
fn the_first_byte_behind_a_failed_attempt_does_not_count() {
    assert_eq!(answer(true, &[5_000]).first_byte_us(2), None);
    assert_eq!(answer(true, &[]).first_byte_us(1), None);
}

#[test]
fn a_clock_that_steps_back_gives_zero() {
    let timing = answer(true, &[900, 800]);
    assert_eq!((timing.first_byte_us(1), timing.tpot_us(None)), (Some(0), Some(0)));
    assert_eq!(timing.total_us(), Some(0));
}

#[test]
fn event_streams_are_known_by_their_content_type() {
    assert!(is_event_stream(b"text/event-stream"));
    assert!(is_event_stream(b"Text/Event-Stream; charset=utf-8"));
    assert!(!is_event_stream(b"application/json"));
    assert!(!is_event_stream(b"text"));
}
