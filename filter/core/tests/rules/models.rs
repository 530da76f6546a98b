//! Who serves what, and what does not fit.

use std::rc::Rc;

use isocost_core::fleet::Fleet;
use isocost_core::load::Load;
use isocost_core::pick::{Policy, Query};
use isocost_core::roster::{NodeModel, Roster, RosterNode};
use isocost_core::table::Table;
use isocost_core::Rng;

use crate::fixtures::{node, rules, table, ROSTER_VERSION};

fn model(name: &str, aliases: &[&str], adapters: &[&str], max_length_tokens: u32) -> NodeModel {
    let owned = |names: &[&str]| names.iter().copied().map(String::from).collect();
    NodeModel {
        name: String::from(name),
        aliases: owned(aliases),
        adapters: owned(adapters),
        kv_bytes_per_token: 1000,
        max_length_tokens,
    }
}

/// Nodes 0 to 3 serve a small model, 2 and 3 with an adapter; 4 and 5 a large one; 6 says nothing.
fn roster() -> Rc<Roster> {
    let nodes = (0..7).map(|slot| RosterNode {
        models: match slot {
            0 | 1 => vec![model("small", &["gpt"], &[], 4096)],
            2 | 3 => vec![model("small", &["gpt"], &["tuned"], 4096)],
            4 | 5 => vec![model("large", &[], &[], 0)],
            _ => vec![],
        },
        ..node(slot, &format!("h{slot}"))
    });
    Rc::new(Roster::new(ROSTER_VERSION, nodes.collect()).unwrap())
}

fn even(count: usize) -> Table {
    table(&vec![1.0; count], &vec![0.0; count])
}

/// Every slot that 200 picks of each policy choose.
fn listed(roster: &Rc<Roster>, table: &Table, query: &Query) -> Vec<u32> {
    let mut slots = Vec::new();
    for policy in Policy::ALL {
        let mut load = Load::new(1);
        for seed in 0..200 {
            let fleet = Fleet::build(Rc::clone(roster), table.clone()).unwrap();
            load.rebase(&fleet);
            let pick = fleet.pick(&rules(policy), query, &load, &mut Rng::with_seed(seed)).unwrap();
            slots.push(pick.first());
        }
    }
    slots.sort_unstable();
    slots.dedup();
    slots
}

#[test]
fn a_model_goes_to_the_nodes_that_serve_it_by_any_of_its_names() {
    let roster = roster();
    let slots = |name: &str| {
        let model = roster.model(name.as_bytes());
        listed(&roster, &even(7), &Query { model: Some(model.unwrap()), ..Query::default() })
    };
    assert_eq!(slots("small"), [0, 1, 2, 3]);
    assert_eq!(slots("gpt"), [0, 1, 2, 3]);
    assert_eq!(slots("tuned"), [2, 3]);
    assert_eq!(slots("large"), [4, 5]);
    assert_eq!(listed(&roster, &even(7), &Query::default()), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(roster.model(b"other"), None);
}

#[test]
fn names_are_those_of_the_models_and_an_alias_stands_for_one() {
    let roster = roster();
    assert!(roster.names_models());
    assert_eq!(roster.model_names().collect::<Vec<_>>(), ["large", "small"]);
    for name in ["small", "gpt", "tuned"] {
        let id = roster.model(name.as_bytes()).unwrap();
        assert_eq!((roster.model_name(id), roster.kv_bytes_per_token(id)), ("small", 1000));
    }
    assert!(!crate::fixtures::roster(3, 1).names_models());
}

#[test]
fn a_model_that_no_eligible_node_serves_gets_no_pick() {
    let roster = roster();
    let mut table = even(7);
    table.capacity = vec![1.0, 1.0, 1.0, 1.0, 0.0, f32::NAN, 1.0];
    let fleet = Fleet::build(Rc::clone(&roster), table).unwrap();
    let query = Query { model: roster.model(b"large"), ..Query::default() };
    for policy in [Policy::MinEntropy, Policy::EqualCost] {
        let pick = fleet.pick(&rules(policy), &query, &Load::new(1), &mut Rng::with_seed(1));
        assert_eq!(pick, None);
    }
}

#[test]
fn prompts_go_to_the_nodes_of_their_length_class_as_long_as_there_are_any() {
    let nodes = (0..4).map(|slot| RosterNode {
        min_input_tokens: [0, 0, 1000, 1000][slot],
        max_input_tokens: [1000, 0, 8000, 0][slot],
        ..node(slot, &format!("h{slot}"))
    });
    let roster = Rc::new(Roster::new(ROSTER_VERSION, nodes.collect()).unwrap());
    let slots = |table: &Table, prompt_tokens| {
        listed(&roster, table, &Query { prompt_tokens, ..Query::default() })
    };
    assert_eq!(slots(&even(4), 999), [0, 1]);
    assert_eq!(slots(&even(4), 1000), [1, 2, 3]);
    assert_eq!(slots(&even(4), 8000), [1, 3]);
    let mut shut = even(4);
    shut.state[1] = 0;
    shut.state[3] = 0;
    assert_eq!(slots(&shut, 8000), [0, 2]);
}

#[test]
fn a_request_never_goes_where_it_does_not_fit() {
    let roster = roster();
    let mut table = even(7);
    table.kv_capacity_tokens = vec![5000.0, 3000.0, 0.0, 2000.0, 9000.0, 8000.0, 1e6];
    let slots = |name: &[u8], prompt_tokens, output_tokens| {
        let model = roster.model(name);
        listed(&roster, &table, &Query { model, prompt_tokens, output_tokens, ..Query::default() })
    };
    assert_eq!(slots(b"small", 2000, 500), [0, 1, 2]);
    assert_eq!(slots(b"small", 3000, 500), [0, 2]);
    assert_eq!(slots(b"large", 8000, 500), [4]);
    // Nowhere: it goes where there is most room.
    assert_eq!(slots(b"small", 4000, 500), [0, 2]);
    assert_eq!(slots(b"large", 10_000, 500), [4]);
}

#[test]
fn a_few_large_nodes_are_found_in_a_large_fleet() {
    let roster = crate::fixtures::roster(1000, 1);
    let mut table = even(1000);
    table.kv_capacity_tokens = vec![4000.0; 1000];
    table.kv_capacity_tokens[700] = 50_000.0;
    table.kv_capacity_tokens[800] = 40_000.0;
    let query = Query { prompt_tokens: 30_000, ..Query::default() };
    assert_eq!(listed(&roster, &table, &query), [700, 800]);
}

#[test]
fn columns_of_another_length_are_refused_and_bad_numbers_do_no_harm() {
    let mut short = even(7);
    short.open = vec![1; 6];
    assert!(Fleet::build(roster(), short).is_err());
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0, f32::MAX, 0.0, 1.0].to_vec();
    let mut table = even(7);
    table.token_s = bad.clone();
    table.request_s = bad.clone();
    table.extra_s = bad.clone();
    table.kv_capacity_tokens = bad.clone();
    let fleet = Fleet::build(roster(), table).unwrap();
    for seed in 0..100 {
        let query = Query { prompt_tokens: 100, ..Query::default() };
        let rng = &mut Rng::with_seed(seed);
        assert!(fleet.pick(&rules(Policy::EqualCost), &query, &Load::new(1), rng).is_some());
    }
}
