//! The index names nodes that were seen with a beginning, and never others.

use std::collections::HashMap;

use isocost_core::marks::Marks;
use isocost_core::pick::Held;
use isocost_core::prefix_index::PrefixIndex;
use isocost_core::Rng;
use proptest::prelude::*;

use crate::fixtures::property;
use crate::marks::{chat, marks};

/// The prompt of these blocks of a KiB, each of one letter.
fn prompt(blocks: &[u8]) -> Marks {
    let text: String =
        blocks.iter().map(|block| char::from(b'a' + block).to_string().repeat(1024)).collect();
    marks(&chat(&[("user", &text)]))
}

fn unlimited(_: u32) -> u32 {
    0
}

fn found(index: &PrefixIndex, marks: &Marks) -> Vec<Held> {
    index.find(marks, &unlimited).all().to_vec()
}

fn slots(index: &PrefixIndex, marks: &Marks) -> Vec<u32> {
    found(index, marks).iter().map(|held| held.slot).collect()
}

#[test]
fn the_node_that_holds_most_comes_first() {
    let mut index = PrefixIndex::new();
    index.insert(&prompt(&[0, 1, 2]), 7, 768);
    index.insert(&prompt(&[0, 3]), 9, 512);
    let asked = prompt(&[0, 1, 2, 4]);
    let tokens = |mark: usize| asked.all()[mark].tokens;
    let expected = [Held { slot: 7, tokens: tokens(2) }, Held { slot: 9, tokens: tokens(0) }];
    assert_eq!(found(&index, &asked), expected);
    assert_eq!(found(&index, &prompt(&[5])), []);
}

#[test]
fn the_two_latest_nodes_are_known_for_each_beginning() {
    let mut index = PrefixIndex::new();
    let marks = prompt(&[0]);
    for slot in [1, 2, 3] {
        index.insert(&marks, slot, 256);
    }
    assert_eq!(slots(&index, &marks), [3, 2]);
    index.insert(&marks, 2, 0);
    assert_eq!(slots(&index, &marks), [2, 3]);
}

#[test]
fn at_most_four_nodes_are_named_and_each_once() {
    let mut index = PrefixIndex::new();
    for (slot, blocks) in [(0, 3), (1, 3), (2, 2), (3, 2), (4, 1), (5, 1)] {
        index.insert(&prompt(&[0, 1, 2][..blocks]), slot, 0);
    }
    assert_eq!(slots(&index, &prompt(&[0, 1, 2])), [1, 0, 3, 2]);
    assert_eq!(slots(&index, &prompt(&[0, 1, 3])), [3, 2, 5, 4]);
}

#[test]
fn what_others_saw_counts_as_well() {
    let mut index = PrefixIndex::new();
    let marks = prompt(&[0, 1]);
    index.insert_hash(marks.all()[1].hash, 3);
    assert_eq!(found(&index, &marks), [Held { slot: 3, tokens: marks.all()[1].tokens }]);
}

#[test]
fn what_a_cache_has_since_taken_in_pushes_the_older_out() {
    let mut index = PrefixIndex::new();
    let (old, new) = (prompt(&[0]), prompt(&[1]));
    index.insert(&old, 0, 256);
    index.insert(&new, 0, 1000);
    let names = |index: &PrefixIndex, capacity: u32| {
        let of = |slot: u32| if slot == 0 { capacity } else { 0 };
        [&old, &new].map(|marks| !index.find(marks, &of).all().is_empty())
    };
    assert_eq!(names(&index, 1000), [true, true]);
    assert_eq!(names(&index, 999), [false, true]);
    assert_eq!(names(&index, 0), [true, true]);
    // Used again, it is the latest.
    index.insert(&old, 0, 1);
    assert_eq!(names(&index, 999), [true, true]);
    index.remap(&|slot| Some(slot + 4));
    index.insert(&new, 4, 2000);
    let found = index.find(&old, &|slot| if slot == 4 { 1999 } else { 0 });
    assert!(found.all().is_empty());
    // The count wraps.
    index.insert(&old, 4, u32::MAX - 500);
    index.insert(&new, 4, 1000);
    assert!(!index.find(&old, &|_| 1000).all().is_empty());
    assert!(index.find(&old, &|_| 999).all().is_empty());
}

#[test]
fn a_new_roster_moves_nodes_and_forgets_those_that_left() {
    let mut index = PrefixIndex::new();
    let prompts: Vec<Marks> = (0..20).map(|block| prompt(&[block])).collect();
    for (slot, marks) in prompts.iter().enumerate() {
        index.insert(marks, slot as u32, 256);
    }
    // Every third node leaves, the others move up.
    let new_slot = |slot: u32| (slot % 3 != 0).then(|| slot - slot.div_ceil(3));
    index.remap(&new_slot);
    for (slot, marks) in prompts.iter().enumerate() {
        let expected: Vec<u32> = new_slot(slot as u32).into_iter().collect();
        assert_eq!(slots(&index, marks), expected);
    }
}

#[test]
fn slots_that_no_roster_has_are_not_taken() {
    let mut index = PrefixIndex::new();
    let marks = prompt(&[0]);
    index.insert(&marks, u32::MAX, 1);
    index.insert_hash(marks.all()[0].hash, 1 << 20);
    index.insert_hash(0, 1);
    assert_eq!(found(&index, &marks), []);
}

#[test]
fn in_a_full_index_what_was_not_used_for_longest_goes_first() {
    let mut index = PrefixIndex::new();
    let mut rng = Rng::with_seed(3);
    let used = prompt(&[0, 1, 2, 3]);
    let unused = prompt(&[4, 5, 6, 7]);
    index.insert(&unused, 1, 0);
    for round in 0..300_000 {
        if round % 10_000 == 0 {
            index.insert(&used, 2, 0);
        }
        index.insert_hash(rng.u64(..), 3);
    }
    assert_eq!(found(&index, &unused), []);
    assert_eq!(slots(&index, &used), [2]);
    assert_eq!(found(&index, &used)[0].tokens, used.all().last().unwrap().tokens);
}

/// What the index should know, as long as nothing has to make room.
#[derive(Default)]
struct Simple(HashMap<u64, Vec<u32>>);

impl Simple {
    fn insert_hash(&mut self, hash: u64, slot: u32) {
        let owners = self.0.entry(hash).or_default();
        owners.retain(|owner| *owner != slot);
        owners.insert(0, slot);
        owners.truncate(2);
    }

    fn find(&self, marks: &Marks) -> Vec<Held> {
        let mut found: Vec<Held> = Vec::new();
        for mark in marks.all().iter().rev() {
            for &slot in self.0.get(&mark.hash).into_iter().flatten() {
                if found.iter().all(|held| held.slot != slot) {
                    found.push(Held { slot, tokens: mark.tokens });
                }
            }
        }
        found.truncate(4);
        found
    }

    fn remap(&mut self, new_slot: &dyn Fn(u32) -> Option<u32>) {
        for owners in self.0.values_mut() {
            *owners = owners.iter().filter_map(|slot| new_slot(*slot)).collect();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, u32),
    InsertOne(Vec<u8>, u32),
    Find(Vec<u8>),
    Remap(u32, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let blocks = || prop::collection::vec(0u8..2, 1..6);
    let step = prop_oneof![
        4 => (blocks(), 0u32..12).prop_map(|(blocks, slot)| Step::Insert(blocks, slot)),
        2 => (blocks(), 0u32..12).prop_map(|(blocks, slot)| Step::InsertOne(blocks, slot)),
        6 => blocks().prop_map(Step::Find),
        1 => (0u32..12, 0u32..12).prop_map(|(by, gone)| Step::Remap(by, gone)),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(property(1))]

    #[test]
    fn it_knows_what_a_simple_map_knows(steps in steps()) {
        let mut index = PrefixIndex::new();
        let mut simple = Simple::default();
        for step in steps {
            match step {
                Step::Insert(blocks, slot) => {
                    let marks = prompt(&blocks);
                    index.insert(&marks, slot, 100);
                    marks.all().iter().for_each(|mark| simple.insert_hash(mark.hash, slot));
                }
                Step::InsertOne(blocks, slot) => {
                    let hash = prompt(&blocks).all()[0].hash;
                    index.insert_hash(hash, slot);
                    simple.insert_hash(hash, slot);
                }
                Step::Find(blocks) => {
                    let marks = prompt(&blocks);
                    prop_assert_eq!(found(&index, &marks), simple.find(&marks));
                }
                Step::Remap(by, gone) => {
                    let new_slot = |slot: u32| (slot != gone).then_some((slot + by) % 12);
                    index.remap(&new_slot);
                    simple.remap(&new_slot);
                }
            }
        }
    }
}
