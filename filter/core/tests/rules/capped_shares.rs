//! weighted_random keeps the shares that the weights promise under the cap as well.

use isocost_core::pick::Policy;
use isocost_core::table::{Seen, Table};
use isocost_core::Rng;

use crate::fixtures::{query, roster, rules, table, Vm};

const WEIGHTS: [f32; 4] = [1.0, 0.5, 0.25, 0.1];
const REQUESTS: usize = 200_000;

/// Each node's requests through so many VMs for each one that its weight promises, with a new table
/// after so many of all.
fn of_promised(vms: u64, per_table: usize) -> Vec<f64> {
    let roster = roster(WEIGHTS.len(), 1);
    let seen = |incarnation| Seen { incarnation, sequence: 0, share: 1.0 / vms as f32 };
    let table = Table { seen: (1..=vms).map(seen).collect(), ..table(&WEIGHTS, &[0.0; 4]) };
    let mut vms: Vec<Vm> = (1..=vms).map(|vm| Vm::new(&roster, &table, vm, 1)).collect();
    let mut rng = Rng::with_seed(1);
    let mut counts = [0.0; WEIGHTS.len()];
    for request in 0..REQUESTS {
        if request % per_table == 0 {
            vms.iter_mut().for_each(|vm| vm.renew(table.clone()));
        }
        let vm = rng.usize(0..vms.len());
        counts[vms[vm].send(&rules(Policy::WeightedRandom), &query())] += 1.0;
    }
    let sum: f32 = WEIGHTS.iter().sum();
    let promised = WEIGHTS.map(|weight| f64::from(weight / sum) * REQUESTS as f64);
    counts.iter().zip(promised).map(|(count, promised)| count / promised).collect()
}

/// Independent draws would leave the last node 17 % short where two VMs send 200 requests a table.
#[test]
fn the_cap_leaves_every_node_its_share() {
    for (vms, per_table, tolerance) in [
        (1, 10, 0.01),
        (1, 40, 0.01),
        (1, 1000, 0.01),
        (2, 10, 0.04),
        (2, 40, 0.015),
        (2, 200, 0.005),
        (2, 1000, 0.005),
        (4, 200, 0.06),
        (4, 1000, 0.005),
        (16, 1000, 0.015),
    ] {
        let shares = of_promised(vms, per_table);
        println!("{vms} VMs, {per_table} requests a table: {shares:.3?}");
        let worst = shares.iter().map(|share| (share - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst <= tolerance, "{vms} VMs, {per_table} requests a table: {shares:.3?}");
    }
}
