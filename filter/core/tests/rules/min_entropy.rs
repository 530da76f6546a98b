//! min_entropy takes the lowest entropy, fairly among equals.

use isocost_core::fleet::Fleet;
use isocost_core::pick::Policy;
use isocost_core::Rng;

use crate::fixtures::{entropic, pick, roster, table};

fn slots(fleet: &Fleet, alternates: usize, rng: &mut Rng) -> Vec<u32> {
    pick(fleet, Policy::MinEntropy, alternates, rng).unwrap().slots().to_vec()
}

#[test]
fn the_lowest_entropy_is_picked_and_the_next_ones_are_the_alternates() {
    let fleet = entropic(&[0.5, 0.25, 3.0, 0.125, 1.0]);
    assert_eq!(slots(&fleet, 3, &mut Rng::with_seed(1)), [3, 1, 0, 4]);
}

#[test]
fn infinite_entropy_gets_nothing_in_2000_picks_and_traffic_again_when_lifted() {
    let mut rng = Rng::with_seed(2);
    let shut = entropic(&[0.0, f32::INFINITY, 0.0, f32::NAN]);
    for _ in 0..2000 {
        assert!(slots(&shut, 8, &mut rng).iter().all(|slot| [0, 2].contains(slot)));
    }
    let open = entropic(&[0.0, 0.0, 0.0, f32::NAN]);
    assert!((0..2000).any(|_| slots(&open, 0, &mut rng) == [1]));
}

#[test]
fn exact_ties_share_evenly() {
    let fleet = entropic(&[0.5, 0.0, 0.0, 0.0, -0.0]);
    let mut rng = Rng::with_seed(3);
    let mut counts = [0; 5];
    for _ in 0..40_000 {
        counts[slots(&fleet, 0, &mut rng)[0] as usize] += 1;
    }
    assert_eq!(counts[0], 0);
    for count in &counts[1..] {
        assert!((9_600..10_400).contains(count), "{counts:?}");
    }
}

#[test]
fn alternates_leave_the_host_of_the_pick_before_they_follow_the_order() {
    // Hosts of two: slots 0 and 1 are the lowest, but together.
    let fleet = Fleet::build(roster(6, 2), table(&[1.0; 6], &[0.1, 0.2, 0.3, 0.4, 0.6, 0.5]));
    assert_eq!(slots(&fleet.unwrap(), 2, &mut Rng::with_seed(1)), [0, 2, 5]);
}

#[test]
fn the_order_holds_in_a_large_fleet_in_any_order() {
    let rising: Vec<f32> = (0..5000u16).map(f32::from).collect();
    let falling: Vec<f32> = rising.iter().rev().copied().collect();
    let mut mixed = rising.clone();
    Rng::with_seed(4).shuffle(&mut mixed);
    for entropy in [rising, falling, mixed] {
        let listed = slots(&entropic(&entropy), 8, &mut Rng::with_seed(1));
        let listed: Vec<f32> = listed.iter().map(|&slot| entropy[slot as usize]).collect();
        assert_eq!(listed, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    }
}

#[test]
fn a_large_fleet_without_a_second_host_in_the_order_still_finds_one() {
    let hosts: Vec<&str> = (0..500).map(|slot| if slot < 499 { "big" } else { "far" }).collect();
    let entropy: Vec<f32> = (0..500).map(|slot| slot as f32).collect();
    let table = table(&[1.0; 500], &entropy);
    let fleet = Fleet::build(crate::fixtures::roster_on(&hosts), table).unwrap();
    assert_eq!(slots(&fleet, 1, &mut Rng::with_seed(1)), [0, 499]);
}
