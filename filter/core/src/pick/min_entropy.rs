//! The node with the lowest entropy is chosen (document A), uniformly among exact ties. What was
//! sent since the table raises a node's entropy, so that the next one takes its turn.

use core::cmp::Ordering;

use super::alias;
use super::chooser::{Chooser, MAX_DRAWS};
use super::{any, below};
use crate::fleet::Fleet;
use crate::sort::sort_slots;
use crate::{random, Rng};

/// How many nodes behind the best are kept in order: enough for 8 alternates on different hosts
/// with 8 nodes on each.
const RUNNERS_UP: usize = 64;

/// Draws by capacity once a burst has used up the order.
const DRAWS_BEHIND: usize = 8;

/// The nodes by the entropy in the table.
#[derive(Default)]
pub(super) struct Order {
    /// Those that share the lowest.
    pub best: Vec<u32>,
    /// The next ones, in rising order.
    pub runners_up: Vec<u32>,
}

fn entropy(fleet: &Fleet, slot: u32) -> f32 {
    fleet.row(slot).map_or(f32::INFINITY, |row| row.entropy)
}

impl Order {
    pub fn build(slots: &[u32], fleet: &Fleet) -> Order {
        let entropy = |slot: u32| entropy(fleet, slot);
        let lowest = slots.iter().map(|&slot| entropy(slot)).fold(f32::INFINITY, f32::min);
        let order = |a: u32, b: u32| {
            let by_entropy = entropy(a).partial_cmp(&entropy(b)).unwrap_or(Ordering::Equal);
            by_entropy.then(a.cmp(&b))
        };
        let mut best = Vec::new();
        let mut runners_up = Vec::with_capacity(2 * RUNNERS_UP);
        let mut bar = f32::INFINITY;
        for &slot in slots {
            if entropy(slot) <= lowest {
                best.push(slot);
            } else if entropy(slot) < bar {
                runners_up.push(slot);
                if runners_up.len() == 2 * RUNNERS_UP {
                    sort_slots(&mut runners_up, &order);
                    runners_up.truncate(RUNNERS_UP);
                    bar = runners_up.last().map_or(bar, |&slot| entropy(slot));
                }
            }
        }
        sort_slots(&mut runners_up, &order);
        runners_up.truncate(RUNNERS_UP);
        Order { best, runners_up }
    }
}

pub(super) fn choose(chooser: &mut Chooser, rng: &mut Rng) {
    let order = &chooser.pool.order;
    if order.best.len() <= MAX_DRAWS {
        let start = below(order.best.len(), random(rng));
        let (head, tail) = order.best.split_at_checked(start).unwrap_or((&order.best, &[]));
        for &slot in tail.iter().chain(head) {
            chooser.consider(slot);
        }
    } else {
        for slot in (0..MAX_DRAWS).filter_map(|_| any(&order.best, rng)) {
            chooser.consider(slot);
        }
    }
    // Nothing lowers an entropy until the next table: what follows in the order is not below.
    for &slot in &order.runners_up {
        if chooser.best.is_some() && chooser.best_cost <= entropy(chooser.fleet, slot) {
            return;
        }
        chooser.consider(slot);
    }
    if order.best.len() + order.runners_up.len() < chooser.pool.slots.len() {
        for _ in 0..DRAWS_BEHIND {
            if let Some(slot) = alias::draw(&chooser.pool.cells, random(rng)) {
                chooser.consider(slot);
            }
        }
    }
}
