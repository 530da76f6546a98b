//! Who takes the feed role, and when.

use isocost_core::lease::{decide, Candidate, Decision, Lease};

const NOW: u64 = 1_000_000;
const FRESH_VM: Candidate = Candidate { incarnation: 1, has_served: false, started_ms: NOW };
const SERVING_VM: Candidate = Candidate { incarnation: 1, has_served: true, started_ms: NOW };

fn held_by(holder: u64, heartbeat_ms: u64) -> Option<Lease> {
    Some(Lease { holder, heartbeat_ms, serves: false })
}

#[test]
fn a_vm_that_never_served_takes_a_free_lease_at_once() {
    assert_eq!(decide(None, &FRESH_VM, NOW), Decision::Take);
}

#[test]
fn a_serving_vm_waits_a_second_for_a_better_one() {
    assert_eq!(decide(None, &SERVING_VM, NOW + 1000), Decision::Wait);
    assert_eq!(decide(None, &SERVING_VM, NOW + 1001), Decision::Take);
}

#[test]
fn a_live_holder_keeps_its_lease() {
    for me in [FRESH_VM, SERVING_VM] {
        assert_eq!(decide(held_by(2, NOW - 1000), &me, NOW), Decision::Wait);
        assert_eq!(decide(held_by(1, NOW - 1000), &me, NOW), Decision::Hold);
    }
}

#[test]
fn a_vm_that_serves_yields_to_one_that_never_did() {
    let serving_holder = Some(Lease { holder: 2, heartbeat_ms: NOW, serves: true });
    assert_eq!(decide(serving_holder, &FRESH_VM, NOW), Decision::Take);
    assert_eq!(decide(serving_holder, &SERVING_VM, NOW), Decision::Wait);
    let own = Some(Lease { holder: 1, heartbeat_ms: NOW, serves: true });
    assert_eq!(decide(own, &FRESH_VM, NOW), Decision::Hold);
}

#[test]
fn anyone_takes_the_lease_of_a_dead_holder() {
    for me in [FRESH_VM, SERVING_VM] {
        assert_eq!(decide(held_by(2, NOW - 1001), &me, NOW), Decision::Take);
    }
}

#[test]
fn a_dead_holders_lease_expires_although_the_clock_was_set_back() {
    assert_eq!(decide(held_by(2, NOW + 3_600_000), &SERVING_VM, NOW), Decision::Take);
    assert!(held_by(2, NOW + 5).unwrap().live(NOW));
}

#[test]
fn a_lease_reads_back_as_written() {
    for serves in [false, true] {
        let lease = Lease { holder: 0x0102_0304_0506_0708, heartbeat_ms: NOW, serves };
        let bytes = lease.encode();
        assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[8..16], NOW.to_le_bytes());
        assert_eq!(bytes[16..], [u8::from(serves)]);
        assert_eq!(Lease::decode(&bytes), Some(lease));
    }
}

#[test]
fn bytes_of_another_length_are_no_lease() {
    for len in [0, 1, 8, 16, 18, 32] {
        assert_eq!(Lease::decode(&vec![1; len]), None);
    }
}
