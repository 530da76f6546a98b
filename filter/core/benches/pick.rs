//! What a pick costs, and whether the fleet's size matters to it; what a new table costs.

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, Criterion};
use isocost_core::fleet::Fleet;
use isocost_core::load::Load;
use isocost_core::pick::{Held, Policy, Query, Rules};
use isocost_core::roster::{NodeModel, Roster, RosterNode};
use isocost_core::table::{NodeState, Table};
use isocost_core::wire::{put_bytes, put_fixed64};
use isocost_core::Rng;

/// Nodes as they are in a fleet: 8 to a host, weights and entropies all different.
fn roster(count: usize) -> Rc<Roster> {
    let node = |slot: usize| RosterNode {
        id: (slot as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        address: format!("10.{}.{}.1:{}", slot / 256, slot % 256, 8000 + slot % 8),
        rack: format!("r{}", slot / 32),
        host: format!("h{}", slot / 8),
        models: vec![NodeModel { name: String::from("m"), ..NodeModel::default() }],
        ..RosterNode::default()
    };
    Rc::new(Roster::new(1, (0..count).map(node).collect()).unwrap())
}

/// An isocost.v1.Table for that many nodes.
fn table(count: usize) -> Vec<u8> {
    let mut rng = Rng::with_seed(1);
    let mut numbers = || -> Vec<u8> { (0..count).flat_map(|_| rng.f32().to_le_bytes()).collect() };
    let mut bytes = Vec::new();
    put_fixed64(&mut bytes, 1, 1);
    put_fixed64(&mut bytes, 2, 1);
    put_bytes(&mut bytes, 4, &numbers());
    put_bytes(&mut bytes, 5, &numbers());
    put_bytes(&mut bytes, 6, &vec![NodeState::Serving as u8; count]);
    for column in [7, 11, 12, 13] {
        put_bytes(&mut bytes, column, &numbers());
    }
    for (column, varint) in [(8, [0x85, 0x27]), (9, [0x8a, 0x00]), (10, [0x90, 0x4e])] {
        put_bytes(&mut bytes, column, &varint.repeat(count));
    }
    let kv_capacity: Vec<u8> = (0..count).flat_map(|_| 500_000f32.to_le_bytes()).collect();
    put_bytes(&mut bytes, 14, &kv_capacity);
    bytes
}

fn rules(policy: Policy) -> Rules {
    Rules { policy, alternates: 2, projection: true, dispersion: true }
}

/// A request of some user, with four nodes that hold a part of its prompt.
fn query(number: u64, held: &[Held]) -> Query<'_> {
    Query {
        model: None,
        prompt_tokens: 2000,
        output_tokens: 200,
        user: Some(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        prefix_key: Some(number),
        held,
    }
}

fn fleet(roster: &Rc<Roster>, table: &[u8]) -> Fleet {
    Fleet::build(Rc::clone(roster), Table::decode(table).unwrap()).unwrap()
}

/// Picks a fifth of a second's requests of a busy VM from each of many tables of one roster. What a
/// table's first request makes ready is part of what a table costs, not of this; so is a roster's.
fn timed_picks(roster: &Rc<Roster>, policy: Policy, picks: u64) -> Duration {
    const PER_TABLE: u64 = 500;
    let count = roster.nodes().len();
    let table = table(count);
    let mut rng = Rng::with_seed(2);
    let mut time = Duration::ZERO;
    for first in (0..picks).step_by(PER_TABLE as usize) {
        let fleet = fleet(roster, &table);
        let mut load = Load::new(1);
        load.rebase(&fleet);
        let mut one = |number: u64| {
            let slot = number as u32 * 61;
            let held =
                [0, 1, 2, 3].map(|nth| Held { slot: (slot + nth) % count as u32, tokens: 500 });
            let pick = fleet.pick(&rules(policy), &query(number, &held), &load, &mut rng).unwrap();
            load.opened(roster.node(pick.first()).unwrap().id, pick.work());
        };
        one(0);
        let start = Instant::now();
        (first..picks.min(first + PER_TABLE)).for_each(&mut one);
        time += start.elapsed();
    }
    time
}

fn pick(criterion: &mut Criterion) {
    for count in [128, 1_024, 10_240] {
        let roster = roster(count);
        let fleet = fleet(&roster, &table(count));
        let mut load = Load::new(1);
        load.rebase(&fleet);
        for policy in Policy::ALL {
            let name = format!("pick/{}/{count}", policy.name());
            criterion.bench_function(&name, |bencher| {
                bencher.iter_custom(|picks| timed_picks(&roster, policy, picks));
            });
        }
        let mut rng = Rng::with_seed(3);
        let mut header = Vec::new();
        criterion.bench_function(&format!("pick_and_write/{count}"), |bencher| {
            bencher.iter(|| {
                header.clear();
                let rules = rules(Policy::WeightedRandom);
                let pick = fleet.pick(&rules, &Query::default(), &load, &mut rng).unwrap();
                fleet.write_destination(&pick, &mut header);
                black_box(header.len())
            });
        });
    }
}

fn decode(criterion: &mut Criterion) {
    for count in [1_024, 10_240] {
        let (roster, table) = (roster(count), table(count));
        criterion.bench_function(&format!("decode_and_build/{count}"), |bencher| {
            // The first request makes its pool ready.
            let load = Load::new(1);
            bencher.iter(|| {
                let fleet = fleet(&roster, &table);
                let mut rng = Rng::with_seed(4);
                fleet.pick(&rules(Policy::EqualCost), &query(1, &[]), &load, &mut rng)
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = pick, decode
}
criterion_main!(benches);
