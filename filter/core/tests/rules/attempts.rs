//! Failed attempts are blamed on nodes only where Envoy's figures prove it.

use std::rc::Rc;

use isocost_core::attempts::judge;
use isocost_core::fleet::Fleet;
use isocost_core::pick::{Pick, Policy};
use isocost_core::roster::Roster;
use isocost_core::Rng;

use crate::fixtures::{pick, roster, table};

/// Slots 0, 1, 2 of four nodes listed in this order.
fn listed() -> (Rc<Roster>, Pick) {
    let (roster, pick) = listed_with(2);
    assert_eq!(pick.slots(), [0, 1, 2]);
    (roster, pick)
}

fn listed_with(alternates: usize) -> (Rc<Roster>, Pick) {
    let entropy = [0.0, 1.0, 2.0, 3.0];
    let fleet = Fleet::build(roster(4, 1), table(&[1.0; 4], &entropy)).unwrap();
    let pick = pick(&fleet, Policy::MinEntropy, alternates, &mut Rng::with_seed(1)).unwrap();
    (Rc::clone(fleet.roster()), pick)
}

#[test]
fn the_first_attempt_blames_nobody() {
    let (roster, pick) = listed();
    let attempts = judge(&roster, Some(&pick), 1, b"10.0.0.0:8000");
    assert_eq!((attempts.failed, attempts.unknown, attempts.used), (&[][..], 0, Some(1000)));
}

#[test]
fn nodes_listed_before_the_one_that_answered_failed() {
    let (roster, pick) = listed();
    let attempts = judge(&roster, Some(&pick), 3, b"10.0.0.2:8000");
    assert_eq!((attempts.failed, attempts.unknown, attempts.used), (&[0, 1][..], 0, Some(1002)));
}

#[test]
fn attempts_are_unknown_if_the_list_was_not_walked_in_order() {
    let (roster, pick) = listed();
    for (count, address, used) in [
        (2, "10.0.0.2:8000", Some(1002)), // a listed host was skipped
        (3, "10.0.0.0:8000", Some(1000)), // listed, but not at this place
        (2, "10.9.9.9:8000", None),       // a host that is not in the roster
        (2, "", None),
    ] {
        let attempts = judge(&roster, Some(&pick), count, address.as_bytes());
        let expected = (&[][..], count as u32 - 1, used);
        assert_eq!((attempts.failed, attempts.unknown, attempts.used), expected);
        assert_eq!(attempts.stale, !address.is_empty());
    }
}

#[test]
fn a_choice_is_stale_if_envoy_passed_over_a_listed_node() {
    let (roster, pick) = listed();
    for (count, address, stale) in [
        (1, "10.0.0.0:8000", false),
        (3, "10.0.0.2:8000", false),
        (1, "10.0.0.1:8000", true), // the first was not there
        (1, "10.0.0.3:8000", true), // none of them was
        (1, "10.9.9.9:8000", true),
        (2, "10.0.0.2:8000", true),
        (4, "10.0.0.3:8000", false), // the list was used up
        (1, "", false),              // refused before a node was chosen
        (0, "10.0.0.1:8000", false), // Envoy did not say how often it tried
    ] {
        assert_eq!(judge(&roster, Some(&pick), count, address.as_bytes()).stale, stale, "{count}");
    }
    assert!(!judge(&roster, None, 1, b"10.0.0.3:8000").stale);
}

#[test]
fn all_listed_nodes_failed_once_the_list_is_used_up() {
    for (alternates, count, address, failed, unknown, used) in [
        (2, 4, "10.0.0.3:8000", &[0, 1, 2][..], 0, Some(1003)),
        (2, 5, "10.0.0.3:8000", &[0, 1, 2], 1, Some(1003)),
        (0, 2, "10.0.0.3:8000", &[0], 0, Some(1003)),
        // The fallback policy chose the listed node again.
        (0, 2, "10.0.0.0:8000", &[0], 0, Some(1000)),
        (0, 3, "10.9.9.9:8000", &[0], 1, None),
    ] {
        let (roster, pick) = listed_with(alternates);
        let attempts = judge(&roster, Some(&pick), count, address.as_bytes());
        assert_eq!((attempts.failed, attempts.unknown, attempts.used), (failed, unknown, used));
        assert!(!attempts.stale);
    }
}

#[test]
fn the_fallback_policy_has_no_list_to_blame() {
    let (roster, _) = listed();
    let attempts = judge(&roster, None, 2, b"10.0.0.3:8000");
    assert_eq!((attempts.failed, attempts.unknown, attempts.used), (&[][..], 1, Some(1003)));
}

#[test]
fn an_absurd_attempt_count_is_only_a_number() {
    let (roster, pick) = listed();
    assert_eq!(judge(&roster, Some(&pick), 0, b"10.0.0.0:8000").unknown, 0);
    let absurd = judge(&roster, Some(&pick), u64::MAX, b"10.0.0.0:8000");
    assert_eq!((absurd.failed, absurd.unknown), (&[0, 1, 2][..], u32::MAX));
}
