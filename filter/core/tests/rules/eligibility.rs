//! A node is listed only if its state, entropy and weight allow it; and how the rest of the list is
//! made up.

use std::collections::BTreeSet;

use isocost_core::fleet::Fleet;
use isocost_core::pick::{Pick, Policy, MAX_ALTERNATES};
use isocost_core::table::{NodeState, Table};
use isocost_core::Rng;
use proptest::prelude::*;

use crate::fixtures::{node, pick, property, roster, roster_on, table, weighted, ROSTER_VERSION};

const POLICIES: [Policy; 3] = Policy::ALL;

fn picks(fleet: &Fleet, policy: Policy, alternates: usize) -> Vec<Option<Pick>> {
    let mut rng = Rng::with_seed(7);
    (0..2000).map(|_| pick(fleet, policy, alternates, &mut rng)).collect()
}

/// Every slot that 2,000 weighted picks list in any place.
fn listed(fleet: &Fleet) -> BTreeSet<u32> {
    let picks = picks(fleet, Policy::WeightedRandom, 2);
    picks.iter().flatten().flat_map(|pick| pick.slots().to_vec()).collect()
}

#[test]
fn unusable_weights_are_never_picked() {
    assert_eq!(listed(&weighted(&[1.0, -1.0, 1.0])), BTreeSet::from([0, 2]));
    assert_eq!(listed(&weighted(&[f32::NAN, 1.0])), BTreeSet::from([1]));
    assert_eq!(listed(&weighted(&[f32::INFINITY, 1.0])), BTreeSet::from([1]));
    assert_eq!(listed(&weighted(&[f32::NEG_INFINITY, f32::NAN])), BTreeSet::new());
    assert_eq!(listed(&weighted(&[0.0, 0.0, 0.0])), BTreeSet::new());
    assert_eq!(listed(&weighted(&[])), BTreeSet::new());
    assert_eq!(listed(&weighted(&[0.1; 10])), (0..10).collect());
}

#[test]
fn extreme_weights_give_a_valid_pick() {
    assert_eq!(listed(&weighted(&[f32::MAX, f32::MAX])), BTreeSet::from([0, 1]));
    let smallest = f32::from_bits(1);
    assert_eq!(listed(&weighted(&[smallest, smallest])), BTreeSet::from([0, 1]));
    assert_eq!(listed(&weighted(&[f32::MAX, smallest])), BTreeSet::from([0, 1]));
}

#[test]
fn a_node_that_is_not_in_service_is_never_listed() {
    let states = [0, 1, 2, 3, 4, 5, 6, 7, 255];
    let mut table = table(&[1.0; 9], &[0.0; 9]);
    table.state = states.to_vec();
    let fleet = Fleet::build(roster(9, 1), table).unwrap();
    for policy in POLICIES {
        for pick in picks(&fleet, policy, 8) {
            let slots = BTreeSet::from_iter(pick.unwrap().slots().to_vec());
            assert_eq!(slots, BTreeSet::from([1, 2, 3]));
        }
    }
}

#[test]
fn min_entropy_does_not_ask_for_a_weight() {
    let fleet = Fleet::build(roster(2, 1), table(&[0.0, 0.0], &[1.0, 2.0])).unwrap();
    assert_eq!(
        pick(&fleet, Policy::MinEntropy, 1, &mut Rng::with_seed(1)).unwrap().slots(),
        [0, 1]
    );
    assert_eq!(pick(&fleet, Policy::WeightedRandom, 1, &mut Rng::with_seed(1)), None);
}

#[test]
fn alternates_are_on_other_hosts_even_if_one_host_has_all_the_weight() {
    let weight = [vec![1.0; 16], vec![1e-9; 2]].concat();
    let hosts = [vec!["big"; 16], vec!["b", "c"]].concat();
    let fleet = Fleet::build(roster_on(&hosts), table(&weight, &[0.0; 18])).unwrap();
    for pick in picks(&fleet, Policy::WeightedRandom, 2) {
        assert_eq!(BTreeSet::from_iter(pick.unwrap().slots()[1..].to_vec()), [16, 17].into());
    }
}

#[test]
fn nodes_of_the_same_host_are_better_than_no_alternates() {
    let fleet = Fleet::build(roster(3, 3), table(&[1.0; 3], &[0.0; 3])).unwrap();
    for policy in POLICIES {
        for pick in picks(&fleet, policy, 5) {
            assert_eq!(BTreeSet::from_iter(pick.unwrap().slots().to_vec()), [0, 1, 2].into());
        }
    }
}

#[test]
fn every_other_host_serves_as_alternate() {
    // The alternates of a node with all the weight must not be the same node each time.
    let weight = [vec![1.0], vec![1e-9; 50]].concat();
    assert_eq!(listed(&weighted(&weight)), (0..51).collect());
}

#[test]
fn a_node_without_a_host_shares_one_with_the_nodes_of_its_ip() {
    let mut nodes: Vec<_> = (0..3).map(|slot| node(slot, "")).collect();
    nodes[1].address = String::from("10.0.0.0:8001");
    let roster = isocost_core::roster::Roster::new(ROSTER_VERSION, nodes).unwrap();
    let fleet = Fleet::build(roster.into(), table(&[1.0, 1e-9, 1e-9], &[0.0; 3])).unwrap();
    for pick in picks(&fleet, Policy::WeightedRandom, 1).into_iter().flatten() {
        if pick.first() == 0 {
            assert_eq!(pick.slots(), [0, 2]);
        }
    }
}

#[test]
fn the_destination_lists_the_addresses_in_order() {
    let fleet = Fleet::build(roster(3, 1), table(&[0.0; 3], &[2.0, 1.0, 3.0])).unwrap();
    let pick = pick(&fleet, Policy::MinEntropy, 2, &mut Rng::with_seed(1)).unwrap();
    let mut header = b"x".to_vec();
    fleet.write_destination(&pick, &mut header);
    assert_eq!(header, b"x10.0.0.1:8000,10.0.0.0:8000,10.0.0.2:8000");
}

#[test]
fn a_table_for_another_roster_is_refused() {
    let mut other_version = table(&[1.0; 3], &[0.0; 3]);
    other_version.roster_version += 1;
    assert!(Fleet::build(roster(3, 1), other_version).is_err());
    assert!(Fleet::build(roster(4, 1), table(&[1.0; 3], &[0.0; 3])).is_err());
    let mut uneven = table(&[1.0; 3], &[0.0; 3]);
    uneven.state.pop();
    assert!(Fleet::build(roster(3, 1), uneven).is_err());
}

#[test]
fn the_age_of_a_table_is_never_negative() {
    let fleet = weighted(&[1.0]);
    assert_eq!(fleet.age_ms(1_000_250), 250);
    assert_eq!(fleet.age_ms(999_000), 0);
}

/// Any float, with the troublesome ones often.
fn any_number() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => 0.0f32..1.0,
        2 => prop::sample::select(vec![0.0, -0.0, 1.0, 0.5]),
        1 => prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0]),
        1 => any::<u32>().prop_map(f32::from_bits),
    ]
}

fn may_list(policy: Policy, table: &Table, slot: usize) -> bool {
    let (weight, entropy) = (table.weight[slot], table.entropy[slot]);
    let state = NodeState::from_byte(table.state[slot]);
    let in_service = matches!(state, NodeState::Warming | NodeState::Serving | NodeState::Suspect);
    let weight_allows = policy == Policy::MinEntropy || (weight.is_finite() && weight > 0.0);
    in_service && entropy.is_finite() && weight_allows
}

proptest! {
    #![proptest_config(property(2))]

    #[test]
    fn a_list_is_eligible_distinct_and_spread(
        nodes in prop::collection::vec((any_number(), any_number(), 0u8..8, 0u8..12), 0..200),
        alternates in 0usize..12,
        seed: u64,
    ) {
        let hosts: Vec<String> = nodes.iter().map(|(.., host)| format!("h{host}")).collect();
        let roster = roster_on(&hosts.iter().map(String::as_str).collect::<Vec<_>>());
        let mut table = table(&vec![0.0; nodes.len()], &vec![0.0; nodes.len()]);
        for (slot, (weight, entropy, state, _)) in nodes.iter().enumerate() {
            (table.weight[slot], table.entropy[slot]) = (*weight, *entropy);
            table.state[slot] = *state;
        }
        let fleet = Fleet::build(roster, table.clone()).unwrap();
        let mut rng = Rng::with_seed(seed);
        for policy in POLICIES {
            let eligible = || (0..nodes.len()).filter(|&slot| may_list(policy, &table, slot));
            let eligible_hosts = BTreeSet::from_iter(eligible().map(|slot| &hosts[slot])).len();
            for _ in 0..20 {
                let pick = pick(&fleet, policy, alternates, &mut rng);
                prop_assert_eq!(pick.is_some(), eligible().count() > 0);
                let Some(pick) = pick else { continue };
                let slots: Vec<usize> = pick.slots().iter().map(|&slot| slot as usize).collect();
                prop_assert!(slots.iter().all(|&slot| may_list(policy, &table, slot)));
                let wanted = 1 + alternates.min(MAX_ALTERNATES);
                prop_assert_eq!(slots.len(), wanted.min(eligible().count()));
                prop_assert_eq!(BTreeSet::from_iter(&slots).len(), slots.len());
                let listed_hosts = BTreeSet::from_iter(slots.iter().map(|&slot| &hosts[slot]));
                prop_assert_eq!(listed_hosts.len(), slots.len().min(eligible_hosts));
            }
        }
    }
}
