//! Between two tables no node gets much more than its share, whatever the policy, the number of
//! VMs and their shares.

use isocost_core::pick::{Policy, Rules};
use isocost_core::table::{Seen, Table};
use isocost_core::Rng;

use crate::fixtures::{pure, query, roster, rules, table, Vm};

/// Nodes of four speeds, some of them much better placed than others.
fn mixed(count: usize, shares: &[f32]) -> Table {
    let capacity: Vec<f32> = (0..count).map(|slot| [1.0, 0.5, 0.25, 2.0][slot % 4]).collect();
    let entropy: Vec<f32> = (0..count).map(|slot| (slot * 37 % 101) as f32).collect();
    Table {
        capacity: capacity.clone(),
        pending_tokens: (0..count).map(|slot| (slot as u32 * 53 % 97) * 500).collect(),
        open: (0..count).map(|slot| slot as u32 * 29 % 31).collect(),
        seen: (1..)
            .zip(shares)
            .map(|(incarnation, &share)| Seen { incarnation, sequence: 0, share })
            .collect(),
        ..table(&capacity, &entropy)
    }
}

fn shares(table: &Table) -> Vec<f64> {
    let sum: f64 = table.capacity.iter().map(|&part| f64::from(part)).sum();
    table.capacity.iter().map(|&part| f64::from(part) / sum).collect()
}

#[test]
fn a_burst_through_one_vm_never_exceeds_the_bound() {
    let (roster, table) = (roster(1024, 8), mixed(1024, &[1.0]));
    let shares = shares(&table);
    for policy in Policy::ALL {
        let mut vm = Vm::new(&roster, &table, 1, 1);
        let mut counts = vec![0.0; 1024];
        for total in 1..=10_000 {
            let slot = vm.send(&rules(policy), &query());
            counts[slot] += 1.0;
            let share = shares[slot] * f64::from(total);
            let bound = (1.25 * share).max(share + 2.0) + 1e-3;
            assert!(counts[slot] <= bound, "{policy:?}: {} of {share} at {total}", counts[slot]);
        }
    }
}

/// Requests of two VMs in turn by their shares, as chance has it: a node is never over its bound.
#[test]
fn a_burst_through_two_vms_never_exceeds_the_bound_at_any_moment() {
    for policy in Policy::ALL {
        for (seed, first) in (0..60).zip([0.5, 0.9, 0.7].into_iter().cycle()) {
            let (roster, table) = (roster(16, 8), mixed(16, &[first, 1.0 - first]));
            let mut vms = [1, 2].map(|vm| Vm::new(&roster, &table, vm, seed));
            let mut rng = Rng::with_seed(seed);
            let shares = shares(&table);
            let mut counts = [0.0; 16];
            for total in 1..=200 {
                let vm = usize::from(rng.f32() > first);
                let slot = vms[vm].send(&rules(policy), &query());
                counts[slot] += 1.0;
                let share = shares[slot] * f64::from(total);
                // Each VM counts the request that it sends into its total.
                let bound = (1.25 * share).max(share + 2.0) + shares[slot] + 1e-3;
                assert!(counts[slot] <= bound, "{policy:?}: {} of {share}", counts[slot]);
            }
        }
    }
}

/// The worst node of a burst over its bound of 1.25 times its share and 2 more.
fn worst(policy: Policy, vm_shares: &[f32], seed: u64, sent: usize, nodes: usize) -> f64 {
    let (roster, table) = (roster(nodes, 8), mixed(nodes, vm_shares));
    let mut vms: Vec<Vm> = (1..)
        .zip(vm_shares)
        .map(|(incarnation, _)| Vm::new(&roster, &table, incarnation, seed))
        .collect();
    let mut counts = vec![0.0; nodes];
    let mut due = vec![0.0; vms.len()];
    for _ in 0..sent {
        due.iter_mut().zip(vm_shares).for_each(|(due, share)| *due += share);
        let next = (0..vms.len()).max_by(|&a, &b| due[a].total_cmp(&due[b])).unwrap();
        due[next] -= 1.0;
        counts[vms[next].send(&rules(policy), &query())] += 1.0;
    }
    let over = |(count, share): (&f64, &f64)| count - (1.25 * share * sent as f64 + 2.0);
    counts.iter().zip(&shares(&table)).map(over).fold(f64::MIN, f64::max)
}

fn nine_to_one(vms: usize) -> Vec<f32> {
    let share = |vm| if vm % 2 == 0 { 1.8 } else { 0.2 } / vms as f32;
    (0..vms).map(share).collect()
}

#[test]
fn a_burst_through_many_vms_keeps_the_bound_though_each_knows_only_its_own() {
    for policy in Policy::ALL {
        for vms in [4, 16] {
            for shares in [vec![1.0 / vms as f32; vms], nine_to_one(vms)] {
                let over = worst(policy, &shares, 1, 10_000, 1024);
                assert!(over <= 0.0, "{policy:?}, shares {shares:?}: {over} over");
            }
        }
    }
}

/// The most that one of 8 equal nodes gets of 200 requests through 4 VMs with equal shares.
fn most(rules: &Rules, seed: u64, vm_of: &mut dyn FnMut(usize) -> usize) -> usize {
    let roster = roster(8, 1);
    let seen = |incarnation| Seen { incarnation, sequence: 0, share: 0.25 };
    let entropy = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let table = Table { seen: (1..=4).map(seen).collect(), ..table(&[1.0; 8], &entropy) };
    let mut vms: Vec<Vm> = (1..=4).map(|vm| Vm::new(&roster, &table, vm, seed)).collect();
    let mut counts = [0; 8];
    for request in 0..200 {
        counts[vms[vm_of(request)].send(rules, &query())] += 1;
    }
    counts.into_iter().max().unwrap()
}

#[test]
fn a_burst_between_two_pushes_over_8_nodes_through_4_vms_is_even_for_every_policy() {
    for policy in Policy::ALL {
        for seed in 0..1000 {
            let mut rng = Rng::with_seed(seed);
            // 1.25 times the mean.
            assert!(most(&rules(policy), seed, &mut |request| request % 4) <= 31);
            // The VMs' real shares are not quite what the table says.
            assert!(most(&rules(policy), seed, &mut |_| rng.usize(0..4)) <= 31);
        }
    }
}

#[test]
fn without_projection_and_dispersion_the_burst_goes_to_one_node() {
    let herd = most(&pure(Policy::MinEntropy, 0), 1, &mut |request| request % 4);
    assert_eq!(herd, 200);
    let held = Rules { dispersion: true, ..pure(Policy::MinEntropy, 0) };
    assert!(most(&held, 1, &mut |request| request % 4) <= 31);
}
