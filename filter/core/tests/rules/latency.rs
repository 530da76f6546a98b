//! What counts as time to first byte and as time per output token.

use isocost_core::latency::{is_event_stream, Timing};

/// An answer to a request of time 1,000 with chunks at these times, each with so many output
/// events.
fn answer(event_stream: bool, chunks: &[(u64, u64)]) -> Timing {
    let mut timing = Timing::start(1_000);
    timing.answered(event_stream);
    let mut events = 0;
    for &(now, more) in chunks {
        events += more;
        timing.chunk(now, events);
    }
    timing
}

#[test]
fn time_per_token_is_from_the_first_output_to_the_last() {
    let timing = answer(true, &[(2_000, 0), (5_000, 1), (6_000, 1), (9_000, 1), (9_500, 0)]);
    assert_eq!(timing.tpot_us(Some(3)), Some(2_000));
    assert_eq!((timing.chunks(), timing.total_us()), (5, Some(8_500)));
}

#[test]
fn the_first_token_comes_with_the_first_output_not_with_the_first_byte() {
    let timing = answer(true, &[(2_000, 0), (5_000, 2), (6_000, 1)]);
    assert_eq!(timing.first_byte_us(1), Some(1_000));
    assert_eq!(timing.first_token_us(1), Some(4_000));
    assert_eq!(answer(true, &[(2_000, 0)]).first_token_us(1), None);
}

#[test]
fn the_first_token_is_told_once() {
    let mut timing = Timing::start(0);
    timing.answered(true);
    let told = [0, 1, 1, 3].map(|events| timing.chunk(5, events));
    assert_eq!(told, [false, true, false, false]);
    assert!(timing.had_first_token());
}

#[test]
fn usage_says_how_many_tokens_the_events_held() {
    let timing = answer(true, &[(5_000, 1), (6_000, 1), (9_000, 1)]);
    assert_eq!(timing.tpot_us(Some(9)), Some(500));
    assert_eq!(timing.tpot_us(None), None);
}

#[test]
fn one_token_has_no_time_per_token() {
    assert_eq!(answer(true, &[(5_000, 1), (6_000, 1)]).tpot_us(Some(1)), None);
    assert_eq!(answer(true, &[(5_000, 1), (6_000, 1)]).tpot_us(Some(0)), None);
    assert_eq!(answer(true, &[(5_000, 3), (6_000, 0)]).tpot_us(Some(40)), None);
    assert_eq!(answer(true, &[]).tpot_us(Some(40)), None);
}

#[test]
fn an_answer_in_one_piece_has_only_a_total() {
    let timing = answer(false, &[(5_000, 0), (5_010, 0)]);
    assert_eq!((timing.first_byte_us(1), timing.tpot_us(Some(40))), (None, None));
    assert_eq!(timing.total_us(), Some(4_010));
    assert_eq!(answer(false, &[]).total_us(), None);
}

#[test]
fn the_first_byte_and_token_behind_a_failed_attempt_do_not_count() {
    assert_eq!(answer(true, &[(5_000, 1)]).first_byte_us(2), None);
    assert_eq!(answer(true, &[(5_000, 1)]).first_token_us(2), None);
    assert_eq!(answer(true, &[]).first_byte_us(1), None);
}

#[test]
fn a_clock_that_steps_back_gives_zero() {
    let timing = answer(true, &[(900, 1), (800, 1)]);
    assert_eq!((timing.first_byte_us(1), timing.tpot_us(Some(2))), (Some(0), Some(0)));
    assert_eq!((timing.first_token_us(1), timing.total_us()), (Some(0), Some(0)));
}

#[test]
fn event_streams_are_known_by_their_content_type() {
    assert!(is_event_stream(b"text/event-stream"));
    assert!(is_event_stream(b"Text/Event-Stream; charset=utf-8"));
    assert!(!is_event_stream(b"application/json"));
    assert!(!is_event_stream(b"text"));
}
