//! The node with the lowest entropy is chosen (document A), uniformly among exact ties.

use core::cmp::Ordering;

use super::alternates::{Hosts, Listing};
use super::{any, eligible_entropy, Pick};
use crate::roster::Roster;
use crate::sort::sort_slots;
use crate::table::Table;
use crate::Rng;

/// How many nodes behind the best are kept in order: enough for 8 alternates on different hosts
/// with 8 nodes on each.
const RUNNERS_UP: usize = 64;

/// Draws among the ties per alternate before the runners-up are asked.
const REDRAWS: usize = 4;

pub(crate) struct MinEntropy {
    /// The nodes that share the lowest entropy.
    best: Vec<u32>,
    /// The next ones, in rising order.
    runners_up: Vec<u32>,
    hosts: Hosts,
}

impl MinEntropy {
    pub(crate) fn build(roster: &Roster, table: &Table) -> MinEntropy {
        let hosts = Hosts::build(roster, &|slot| eligible_entropy(table, slot).is_some());
        let entropy = |slot: u32| eligible_entropy(table, slot).unwrap_or(f32::INFINITY);
        let lowest = hosts.slots().iter().map(|&slot| entropy(slot)).fold(f32::INFINITY, f32::min);
        let order = |a: u32, b: u32| {
            let by_entropy = entropy(a).partial_cmp(&entropy(b)).unwrap_or(Ordering::Equal);
            by_entropy.then(a.cmp(&b))
        };
        let mut best = Vec::new();
        let mut runners_up = Vec::with_capacity(2 * RUNNERS_UP);
        let mut bar = f32::INFINITY;
        for &slot in hosts.slots() {
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
        MinEntropy { best, runners_up, hosts }
    }

    pub(crate) fn pick(&self, roster: &Roster, alternates: usize, rng: &mut Rng) -> Option<Pick> {
        let mut listing = Listing::start(roster, &self.hosts, any(&self.best, rng)?);
        // A runner-up passed over is on a listed host and stays so: each is looked at once.
        let mut runners_up = self.runners_up.iter().copied();
        for _ in 0..alternates {
            let next = (0..REDRAWS)
                .find_map(|_| any(&self.best, rng).filter(|&slot| listing.is_on_new_host(slot)))
                .or_else(|| runners_up.find(|&slot| listing.is_on_new_host(slot)));
            if !listing.push(next, rng) {
                break;
            }
        }
        Some(listing.pick())
    }
}
