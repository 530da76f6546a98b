//! What a VM did counts at once, and never twice.

use std::rc::Rc;

use isocost_core::fleet::Fleet;
use isocost_core::load::Load;
use isocost_core::pick::{Held, Policy, Query, Rules};
use isocost_core::roster::Roster;
use isocost_core::table::{Seen, Table};
use isocost_core::work::Work;
use isocost_core::Rng;

use crate::fixtures::{node, query, roster, rules, table, ROSTER_VERSION};

const WORK: Work = Work { prompt_tokens: 500, kv_tokens: 800 };
const OWN: u64 = 1;
/// The id of the node in slot 0.
const NODE: u64 = 1000;

fn fleet(pending_tokens: u32, seen: &[Seen]) -> Fleet {
    let mut table = table(&[1.0], &[0.0]);
    table.pending_tokens = vec![pending_tokens];
    table.seen = seen.to_vec();
    Fleet::build(roster(1, 1), table).unwrap()
}

fn seen(incarnation: u64, sequence: u64, share: f32) -> Seen {
    Seen { incarnation, sequence, share }
}

/// Pending tokens of the only node, before a request of 1,000 tokens comes.
fn pending(fleet: &Fleet, load: &Load) -> u32 {
    let rules = rules(Policy::EqualCost);
    fleet.pick(&rules, &query(), load, &mut Rng::with_seed(1)).unwrap().pending_tokens().unwrap()
        - 1000
}

/// The same of one of several nodes.
fn pending_in(slot: u32, fleet: &Fleet, load: &Load) -> u32 {
    let rules = Rules { dispersion: false, ..rules(Policy::WeightedRandom) };
    let mut rng = Rng::with_seed(1);
    let mut picks = (0..1000).filter_map(|_| fleet.pick(&rules, &query(), load, &mut rng));
    picks.find(|pick| pick.first() == slot).unwrap().pending_tokens().unwrap() - 1000
}

#[test]
fn what_was_sent_counts_at_once_and_what_the_table_has_seen_not_twice() {
    let mut load = Load::new(OWN);
    let before = fleet(2000, &[seen(OWN, 0, 1.0)]);
    load.rebase(&before);
    load.opened(NODE, WORK);
    assert_eq!(pending(&before, &load), 2500);
    load.batch(1);
    load.opened(NODE, WORK);
    load.batch(2);
    load.opened(NODE, WORK);
    assert_eq!(pending(&before, &load), 3500);
    let later = fleet(2500, &[seen(OWN, 1, 1.0)]);
    load.rebase(&later);
    assert_eq!(pending(&later, &load), 3500);
    let latest = fleet(3000, &[seen(OWN, 2, 1.0)]);
    load.rebase(&latest);
    assert_eq!(pending(&latest, &load), 3500);
}

#[test]
fn first_tokens_and_ends_are_taken_off() {
    let mut load = Load::new(OWN);
    let first = fleet(0, &[seen(OWN, 0, 1.0)]);
    load.rebase(&first);
    (0..4).for_each(|_| load.opened(NODE, WORK));
    load.batch(1);
    let second = fleet(5000, &[seen(OWN, 1, 1.0)]);
    load.rebase(&second);
    load.first_token(NODE, WORK);
    assert_eq!(pending(&second, &load), 4500);
    load.closed(NODE, WORK, true);
    assert_eq!(pending(&second, &load), 4500);
    load.closed(NODE, WORK, false);
    assert_eq!(pending(&second, &load), 4000);
    // More than is open cannot end.
    (0..9).for_each(|_| load.closed(NODE, WORK, false));
    assert_eq!(pending(&second, &load), 3000);
    load.opened(NODE, WORK);
    assert_eq!(pending(&second, &load), 3500);
}

#[test]
fn no_sum_is_cut_off_and_nothing_is_left_on_a_node_without_requests() {
    let mut load = Load::new(OWN);
    let fleet = fleet(0, &[]);
    load.rebase(&fleet);
    let large = Work { prompt_tokens: u32::MAX, kv_tokens: u32::MAX };
    load.opened(NODE, large);
    load.opened(NODE, large);
    load.closed(NODE, large, false);
    assert!(pending(&fleet, &load) > 4_000_000_000);
    // It ends as less than it began.
    load.closed(NODE, WORK, false);
    assert_eq!(pending(&fleet, &load), 0);
}

#[test]
fn a_retry_moves_the_work_to_the_other_node() {
    let mut load = Load::new(OWN);
    let fleet = Fleet::build(roster(2, 1), table(&[1.0; 2], &[0.0; 2])).unwrap();
    load.rebase(&fleet);
    load.opened(NODE, WORK);
    load.moved(NODE, NODE + 1, WORK);
    assert_eq!([0, 1].map(|slot| pending_in(slot, &fleet, &load)), [0, 500]);
}

#[test]
fn a_table_that_does_not_know_the_vm_lacks_all_of_its_work() {
    let mut load = Load::new(OWN);
    let known = fleet(0, &[seen(OWN, 0, 1.0)]);
    load.rebase(&known);
    load.opened(NODE, WORK);
    load.batch(1);
    load.rebase(&fleet(500, &[seen(OWN, 1, 1.0)]));
    // The control plane restarts: it knows nobody, then the VM again.
    let restarted = fleet(0, &[]);
    load.rebase(&restarted);
    assert_eq!(pending(&restarted, &load), 500);
    load.batch(2);
    let again = fleet(500, &[seen(OWN, 2, 1.0)]);
    load.rebase(&again);
    assert_eq!(pending(&again, &load), 500);
}

#[test]
fn the_others_are_believed_to_do_the_same() {
    let factor = |seen: &[Seen]| {
        let mut load = Load::new(OWN);
        let fleet = fleet(0, seen);
        load.rebase(&fleet);
        load.opened(NODE, WORK);
        pending(&fleet, &load) as f32 / 500.0
    };
    assert_eq!(factor(&[]), 1.0);
    assert_eq!(factor(&[seen(OWN, 0, 0.0)]), 1.0);
    assert_eq!(factor(&[seen(OWN, 0, 0.5), seen(2, 0, 0.5)]), 2.0);
    // A share that is not known is an equal one, a tiny one has its limit.
    assert_eq!(factor(&[seen(2, 0, 0.0), seen(OWN, 0, 0.0)]), 2.0);
    assert_eq!(factor(&[seen(2, 0, 1.0)]), 2.0);
    assert_eq!(factor(&[seen(OWN, 0, 0.001), seen(2, 0, 0.999)]), 4.0);
    assert_eq!(factor(&[seen(OWN, 0, f32::NAN), seen(2, 0, -1.0)]), 2.0);
}

#[test]
fn a_projection_is_never_below_what_the_vm_itself_has_open() {
    let mut load = Load::new(OWN);
    load.rebase(&fleet(0, &[seen(OWN, 0, 0.5), seen(2, 0, 0.5)]));
    (0..3).for_each(|_| load.opened(NODE, WORK));
    load.batch(1);
    let table = fleet(1600, &[seen(OWN, 1, 0.5), seen(2, 0, 0.5)]);
    load.rebase(&table);
    load.closed(NODE, WORK, false);
    assert_eq!(pending(&table, &load), 1000);
}

#[test]
fn open_requests_survive_a_roster_that_changes_under_them() {
    let fleet = |slots: &[usize], version| {
        let nodes = slots.iter().map(|&slot| node(slot, "h")).collect();
        let roster = Rc::new(Roster::new(version, nodes).unwrap());
        let table = Table {
            roster_version: version,
            seen: vec![seen(OWN, 1, 1.0)],
            ..table(&vec![1.0; slots.len()], &vec![0.0; slots.len()])
        };
        Fleet::build(roster, table).unwrap()
    };
    let mut load = Load::new(OWN);
    load.opened(NODE + 2, WORK);
    let first = fleet(&[0, 1, 2], ROSTER_VERSION);
    load.rebase(&first);
    load.opened(NODE, WORK);
    load.opened(NODE + 1, WORK);
    assert_eq!([0, 1, 2].map(|slot| pending_in(slot, &first, &load)), [500, 500, 500]);
    load.batch(1);
    let second = fleet(&[2, 1, 7], 2);
    load.rebase(&second);
    assert_eq!([0, 1, 2].map(|slot| pending_in(slot, &second, &load)), [500, 500, 0]);
    load.closed(NODE + 1, WORK, false);
    load.opened(NODE + 50, WORK);
    let third = fleet(&[1, 0, 2], 3);
    load.rebase(&third);
    assert_eq!([0, 1, 2].map(|slot| pending_in(slot, &third, &load)), [0, 500, 500]);
    load.closed(NODE, WORK, false);
    load.closed(NODE + 50, WORK, false);
    assert_eq!(pending_in(1, &third, &load), 0);
}

#[test]
fn without_projection_only_the_table_counts() {
    let mut load = Load::new(OWN);
    let fleet = fleet(2000, &[]);
    load.rebase(&fleet);
    load.opened(NODE, WORK);
    let rules = Rules { projection: false, ..rules(Policy::EqualCost) };
    let pick = fleet.pick(&rules, &query(), &load, &mut Rng::with_seed(1)).unwrap();
    assert_eq!(pick.pending_tokens(), Some(3000));
    assert_eq!(pick.work(), Work { prompt_tokens: 1000, kv_tokens: 1200 });
}

#[test]
fn min_entropy_takes_the_next_node_when_its_own_requests_have_raised_the_first() {
    let fleet = Fleet::build(roster(2, 1), table(&[1.0; 2], &[0.0, 1.0])).unwrap();
    let mut load = Load::new(OWN);
    load.rebase(&fleet);
    let rules = Rules { dispersion: false, ..rules(Policy::MinEntropy) };
    let query = Query { prompt_tokens: 10_000, ..Query::default() };
    let mut rng = Rng::with_seed(1);
    let slots: Vec<u32> = (0..8)
        .map(|_| {
            let pick = fleet.pick(&rules, &query, &load, &mut rng).unwrap();
            load.opened(NODE + u64::from(pick.first()), pick.work());
            pick.first()
        })
        .collect();
    assert_eq!(slots, [0, 0, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_prompt_that_is_mostly_cached_teaches_nothing_of_how_fast_the_node_reads() {
    let mut load = Load::new(OWN);
    let fleet = fleet(2000, &[]);
    load.rebase(&fleet);
    let learned_with = |tokens: u32| {
        let held = [0, 1].map(|slot| Held { slot, tokens });
        let query = Query { held: &held, ..query() };
        fleet.pick(&rules(Policy::EqualCost), &query, &load, &mut Rng::with_seed(1)).unwrap()
    };
    assert_eq!(learned_with(500).pending_tokens(), Some(2500));
    assert_eq!(learned_with(501).pending_tokens(), None);
    assert_eq!(learned_with(501).work().prompt_tokens, 499);
}
