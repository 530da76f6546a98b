//! A VM that is dead is missed, one that took its place is not one more, and one that never served
//! is not waited for.

use std::collections::BTreeSet;

use isocost_core::workers::{Workers, SILENT_MS};
use proptest::prelude::*;

use crate::fixtures::{batch, property};

/// Between two batches of a VM.
const STEP_MS: u64 = 200;

/// An Envoy whose VMs hand over their batches in turn.
#[derive(Default)]
struct Envoy {
    workers: Workers,
    now_ms: u64,
}

impl Envoy {
    fn rounds(&mut self, rounds: u64, vms: &[u64]) {
        for _ in 0..rounds {
            self.now_ms += STEP_MS;
            for &vm in vms {
                self.workers.heard(&batch(vm, false), self.now_ms);
            }
        }
    }

    fn count(&mut self) -> (u32, u32) {
        self.workers.count(self.now_ms)
    }
}

/// So many rounds that a VM silent throughout is dead.
const LONG: u64 = SILENT_MS / STEP_MS + 1;

#[test]
fn vms_are_counted_when_they_speak() {
    let mut envoy = Envoy::default();
    assert_eq!(envoy.count(), (0, 0));
    envoy.rounds(2, &[1]);
    assert_eq!(envoy.count(), (1, 1));
    envoy.rounds(2, &[1, 2, 3]);
    assert_eq!(envoy.count(), (3, 3));
}

#[test]
fn a_dead_vm_is_missed_until_another_takes_its_place() {
    let mut envoy = Envoy::default();
    envoy.rounds(2, &[1, 2, 3, 4]);
    envoy.rounds(LONG, &[1, 2, 4]);
    assert_eq!(envoy.count(), (3, 4));
    envoy.rounds(5 * LONG, &[1, 2, 4]);
    assert_eq!(envoy.count(), (3, 4));
    envoy.rounds(2, &[1, 2, 4, 30]);
    assert_eq!(envoy.count(), (4, 4));
    envoy.rounds(LONG, &[]);
    assert_eq!(envoy.count(), (0, 4));
}

#[test]
fn a_vm_that_takes_a_dead_ones_place_at_once_is_not_one_more() {
    let mut envoy = Envoy::default();
    envoy.rounds(2, &[1, 2]);
    for successor in 10..30 {
        envoy.rounds(1, &[1, successor]);
        assert_eq!(envoy.count(), (2, 2));
    }
    // Nor if all that is known of them comes at once.
    let mut late = Workers::default();
    for vms in [[1, 2], [1, 2], [1, 3], [1, 3]] {
        vms.iter().for_each(|&vm| late.heard(&batch(vm, false), 1));
    }
    assert_eq!(late.count(1), (2, 2));
}

#[test]
fn a_vm_that_leaves_as_it_should_is_not_missed() {
    let mut envoy = Envoy::default();
    // A new filter's VMs beside the old one's, which still have streams open.
    envoy.rounds(2, &[1, 2]);
    envoy.rounds(2, &[1, 2, 11, 12]);
    assert_eq!(envoy.count(), (4, 4));
    envoy.workers.heard(&batch(1, true), envoy.now_ms);
    envoy.workers.heard(&batch(2, true), envoy.now_ms);
    assert_eq!(envoy.count(), (2, 2));
    envoy.rounds(LONG, &[11]);
    assert_eq!(envoy.count(), (1, 2));
}

#[test]
fn a_clock_that_steps_back_kills_nobody() {
    let mut envoy = Envoy::default();
    envoy.rounds(2 * LONG, &[1, 2]);
    envoy.now_ms = 0;
    assert_eq!(envoy.count(), (2, 2));
}

proptest! {
    #![proptest_config(property(1))]

    /// Workers whose VMs fail and are loaded again at any time, in any order of their batches: never
    /// more than the workers are expected, and after a quiet while those that live are counted.
    #[test]
    fn expected_is_never_more_than_the_workers(
        events in prop::collection::vec((0usize..4, 0u8..4), 0..300)
    ) {
        let mut workers = Workers::default();
        let mut vms: [Option<u64>; 4] = [None; 4];
        let mut now_ms = 0;
        let mut seen = BTreeSet::new();
        for (serial, (worker, event)) in events.into_iter().enumerate() {
            now_ms += STEP_MS / 4;
            match (vms[worker], event) {
                (None, 0) => vms[worker] = Some(serial as u64),
                (Some(_), 0) => vms[worker] = None,
                (Some(vm), _) => {
                    seen.insert(worker);
                    workers.heard(&batch(vm, false), now_ms);
                }
                (None, _) => {}
            }
            let (live, expected) = workers.count(now_ms);
            prop_assert!(live <= expected && expected as usize <= seen.len());
        }
        let living: Vec<u64> = vms.into_iter().flatten().collect();
        for _ in 0..LONG {
            now_ms += STEP_MS;
            living.iter().for_each(|&vm| workers.heard(&batch(vm, false), now_ms));
        }
        prop_assert_eq!(workers.count(now_ms).0 as usize, living.len());
    }
}
