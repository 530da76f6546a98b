//! What waits for the control plane is bounded, and the oldest of it goes first.

use isocost_core::backlog::{Backlog, MAX_BYTES};
use isocost_core::wire::{Reader, Value};

/// The first byte of each batch in the report.
fn take(backlog: &mut Backlog) -> Vec<u8> {
    let report = backlog.take_report();
    let mut reader = Reader::new(&report);
    let mut marks = Vec::new();
    while let Some(field) = reader.field().unwrap() {
        let (1, Value::Bytes(batch)) = field else { panic!("{field:?}") };
        marks.push(batch[0]);
    }
    marks
}

#[test]
fn batches_leave_in_their_order_and_once() {
    let mut backlog = Backlog::default();
    assert!(backlog.is_empty());
    for mark in [3, 1, 2] {
        backlog.push(vec![mark]);
    }
    assert!(!backlog.is_empty());
    assert_eq!(take(&mut backlog), [3, 1, 2]);
    assert!(backlog.is_empty());
    assert!(take(&mut backlog).is_empty());
}

#[test]
fn the_newest_stay_when_there_is_no_room_for_all() {
    let mut backlog = Backlog::default();
    for mark in 0..10 {
        backlog.push(vec![mark; MAX_BYTES / 4]);
    }
    assert_eq!(take(&mut backlog), [6, 7, 8, 9]);
    // The room of those that left is free again.
    for mark in 10..14 {
        backlog.push(vec![mark; MAX_BYTES / 4]);
    }
    assert_eq!(take(&mut backlog), [10, 11, 12, 13]);
}

#[test]
fn a_batch_without_room_is_dropped_alone() {
    let mut backlog = Backlog::default();
    backlog.push(vec![1; MAX_BYTES + 1]);
    assert!(backlog.is_empty());
    backlog.push(vec![2]);
    assert_eq!(take(&mut backlog), [2]);
}
