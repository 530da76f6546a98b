//! A user's requests stay in one rack as long as that does not overload it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use isocost_core::fleet::Fleet;
use isocost_core::load::Load;
use isocost_core::pick::{Held, Policy, Query, Rules};
use isocost_core::roster::{Roster, RosterNode};
use isocost_core::table::{NodeState, Seen, Table};
use isocost_core::Rng;

use crate::fixtures::{node, query, rules, table, Vm, ROSTER_VERSION};

/// 16 nodes in each of these racks.
fn racks(names: &[&str]) -> Rc<Roster> {
    let nodes = (0..16 * names.len()).map(|slot| RosterNode {
        rack: String::from(names[slot / 16]),
        ..node(slot, &format!("h{slot}"))
    });
    Rc::new(Roster::new(ROSTER_VERSION, nodes.collect()).unwrap())
}

const FOUR: [&str; 4] = ["a", "b", "c", "d"];

fn even(nodes: usize) -> Table {
    table(&vec![1.0; nodes], &vec![0.0; nodes])
}

fn by(user: u64) -> Query<'static> {
    Query { user: Some(user), ..query() }
}

/// The rack of one request of the user in a fleet without load.
fn home(roster: &Rc<Roster>, table: &Table, user: u64) -> String {
    let mut vm = Vm::new(roster, table, 1, user);
    let slot = vm.send(&rules(Policy::EqualCost), &by(user));
    roster.node(slot as u32).unwrap().rack.clone()
}

/// Sends requests of these users, 400 open at a time and 100 in each table's interval, and gives
/// each to `seen` with its slot.
fn traffic(user_of: &mut dyn FnMut(u64) -> u64, seen: &mut dyn FnMut(u64, usize)) {
    let roster = racks(&FOUR);
    let mut vm = Vm::new(&roster, &even(64), 1, 1);
    let mut open = VecDeque::new();
    let mut open_on = vec![0; 64];
    for number in 0..20_000 {
        if number % 100 == 0 {
            vm.load.batch(number + 1);
            let mut table = even(64);
            table.open.clone_from(&open_on);
            table.seen.push(Seen { incarnation: 1, sequence: number + 1, share: 1.0 });
            vm.renew(table);
        }
        let user = user_of(number);
        let slot = vm.send(&rules(Policy::EqualCost), &by(user));
        seen(user, slot);
        open.push_back(slot);
        open_on[slot] += 1;
        if open.len() > 400 {
            let slot = open.pop_front().unwrap();
            open_on[slot] -= 1;
            let id = vm.fleet.roster().node(slot as u32).unwrap().id;
            vm.load.closed(id, vm.work, false);
        }
    }
}

#[test]
fn of_a_thousand_users_nearly_all_requests_stay_in_one_rack() {
    let mut racks_of = BTreeMap::<u64, [u32; 4]>::new();
    let mut rng = Rng::with_seed(1);
    traffic(&mut |_| rng.u64(0..1000), &mut |user, slot| {
        racks_of.entry(user).or_default()[slot / 16] += 1;
    });
    let at_home: u32 = racks_of.values().map(|counts| counts.iter().max().unwrap()).sum();
    assert!(at_home >= 19_000, "{at_home} of 20000");
}

/// The two workers of an Envoy with some requests each between two tables, as on a quiet day: few
/// enough that a node is due less than one of them.
#[test]
fn two_vms_with_few_requests_each_keep_users_in_their_racks() {
    let roster = racks(&FOUR);
    let mut rng = Rng::with_seed(3);
    let mut at_home = 0;
    for _ in 0..200 {
        let table = || {
            let seen = [1, 2].map(|incarnation| Seen { incarnation, sequence: 0, share: 0.5 });
            Table { seen: seen.to_vec(), ..even(64) }
        };
        let mut vms = [1, 2].map(|vm| Vm::new(&roster, &table(), vm, vm));
        for _ in 0..80 {
            let user = rng.u64(0..1000);
            let slot = vms[rng.usize(0..2)].send(&rules(Policy::EqualCost), &by(user));
            let rack = &roster.node(slot as u32).unwrap().rack;
            at_home += usize::from(*rack == home(&roster, &even(64), user));
        }
    }
    assert!(at_home >= 15_840, "{at_home} of 16000");
}

#[test]
fn five_users_with_most_of_the_traffic_overload_no_node() {
    let mut rng = Rng::with_seed(2);
    let mut counts = [0u32; 64];
    let mut sent = 0;
    traffic(
        &mut |_| if rng.u32(0..10) < 6 { rng.u64(0..5) } else { rng.u64(..) },
        &mut |_, slot| {
            counts[slot] += 1;
            sent += 1;
            let share = f64::from(sent) / 64.0;
            let most = f64::from(*counts.iter().max().unwrap());
            assert!(most <= (1.25 * share).max(share + 2.0) + 1e-3, "{most} of {share}");
            if sent == 100 {
                sent = 0;
                counts = [0; 64];
            }
        },
    );
}

#[test]
fn a_rack_that_goes_moves_only_its_own_users() {
    let (all, less) = (racks(&FOUR), racks(&["a", "b", "d"]));
    let mut moved = 0;
    for user in 0..1000 {
        let (before, after) = (home(&all, &even(64), user), home(&less, &even(48), user));
        assert!(before == after || before == "c");
        moved += usize::from(before != after);
    }
    assert!((150..350).contains(&moved), "{moved}");
}

#[test]
fn a_node_that_dies_leaves_its_users_in_their_rack() {
    let roster = racks(&FOUR);
    let mut dead = even(64);
    dead.state[20..24].fill(NodeState::Lost as u8);
    for user in 0..200 {
        assert_eq!(home(&roster, &even(64), user), home(&roster, &dead, user));
    }
}

#[test]
fn a_request_whose_node_fails_goes_to_a_rack_mate_and_then_anywhere() {
    let roster = racks(&FOUR);
    let fleet = Fleet::build(Rc::clone(&roster), even(64)).unwrap();
    let rules = Rules { alternates: 2, ..rules(Policy::EqualCost) };
    let mut rng = Rng::with_seed(1);
    let mut elsewhere = 0;
    for user in 0..200 {
        let pick = fleet.pick(&rules, &by(user), &Load::new(1), &mut rng).unwrap();
        let racks: Vec<_> =
            pick.slots().iter().map(|&slot| &roster.node(slot).unwrap().rack).collect();
        assert_eq!(racks[0], racks[1]);
        elsewhere += usize::from(racks[2] != racks[0]);
    }
    assert!((120..180).contains(&elsewhere), "{elsewhere}");
}

#[test]
fn an_overloaded_rack_spills_to_the_next_one_of_that_user() {
    let roster = racks(&FOUR);
    for user in 0..100 {
        let first = home(&roster, &even(64), user);
        let start = 16 * FOUR.iter().position(|name| *name == first).unwrap();
        let mut full = even(64);
        full.open = vec![10; 64];
        full.open[start..start + 16].fill(30);
        let spilled: Vec<String> = (0..20)
            .map(|seed| {
                let slot =
                    Vm::new(&roster, &full, 1, seed).send(&rules(Policy::EqualCost), &by(user));
                roster.node(slot as u32).unwrap().rack.clone()
            })
            .collect();
        assert!(spilled.iter().all(|rack| *rack != first && *rack == spilled[0]));
    }
}

/// The pick of a request of which this node holds 900 of 1,000 tokens, with others having this
/// many tokens less to read first.
fn with_held(slot: u32, pending_tokens: u32, rules: &Rules) -> Option<u32> {
    let roster = racks(&["a"]);
    let mut table = even(16);
    table.pending_tokens = vec![0; 16];
    table.pending_tokens[slot as usize] = pending_tokens;
    let fleet = Fleet::build(roster, table).unwrap();
    let query = Query { held: &[Held { slot, tokens: 900 }], ..query() };
    let pick = fleet.pick(rules, &query, &Load::new(1), &mut Rng::with_seed(1))?;
    assert_eq!(pick.work().prompt_tokens, if pick.first() == slot { 100 } else { 1000 });
    Some(pick.first())
}

#[test]
fn the_node_that_holds_the_prompt_is_picked_as_long_as_that_saves_time() {
    let rules = rules(Policy::EqualCost);
    for slot in 0..16 {
        assert_eq!(with_held(slot, 800, &rules), Some(slot));
        assert_ne!(with_held(slot, 1000, &rules), Some(slot));
    }
}

#[test]
fn a_node_elsewhere_is_asked_only_if_it_holds_more_than_those_in_the_rack() {
    let roster = racks(&FOUR);
    let user = (0..).find(|&user| home(&roster, &even(64), user) == "a").unwrap();
    let pick = |near: u32, far: u32| {
        let held = [Held { slot: 1, tokens: near }, Held { slot: 40, tokens: far }];
        let mut vm = Vm::new(&roster, &even(64), 1, 1);
        vm.send(&rules(Policy::EqualCost), &Query { held: &held, ..by(user) })
    };
    assert_eq!(pick(500, 900), 40);
    assert_eq!(pick(500, 500), 1);
}

#[test]
fn the_first_placement_of_a_prompt_is_the_same_everywhere() {
    let roster = racks(&["a"]);
    for key in 0..50 {
        let query = Query { prefix_key: Some(key), ..query() };
        let pick =
            |seed| Vm::new(&roster, &even(16), 1, seed).send(&rules(Policy::EqualCost), &query);
        assert!((1..10).all(|seed| pick(seed) == pick(0)));
    }
}
