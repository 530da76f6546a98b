//! A node is drawn in proportion to its weight (document B), in constant time by an alias table.

use super::alternates::{Hosts, Listing};
use super::{below, eligible_weight, Pick};
use crate::roster::Roster;
use crate::table::Table;
use crate::Rng;

/// Redraws per alternate before a uniform one on another host is taken. If the hosts listed so far
/// hold half of the weight, one alternate in 16 is uniform.
const REDRAWS: usize = 4;

/// A cell of the alias table: `slot` if the draw's fraction is below `threshold`, else `alias`.
struct Cell {
    threshold: u32,
    slot: u32,
    alias: u32,
}

pub(crate) struct WeightedRandom {
    cells: Vec<Cell>,
    hosts: Hosts,
}

impl WeightedRandom {
    /// Builds the alias table by Vose's method over the nodes with a usable weight.
    pub(crate) fn build(roster: &Roster, table: &Table) -> WeightedRandom {
        let hosts = Hosts::build(roster, &|slot| eligible_weight(table, slot).is_some());
        // f64: the sum of any number of finite f32 stays finite.
        let weight = |slot: &u32| f64::from(eligible_weight(table, *slot).unwrap_or(0.0));
        let mut parts: Vec<f64> = hosts.slots().iter().map(weight).collect();
        let scale = parts.len() as f64 / parts.iter().sum::<f64>();
        let mut small = Vec::with_capacity(parts.len());
        let mut large = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter_mut().enumerate() {
            *part *= scale;
            let list = if *part < 1.0 { &mut small } else { &mut large };
            list.push(index);
        }
        let full = |&slot: &u32| Cell { threshold: u32::MAX, slot, alias: slot };
        let mut cells: Vec<Cell> = hosts.slots().iter().map(full).collect();
        // Each cell that is not full is topped up by one that overflows. What is left in either
        // list at the end is full but for rounding.
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            let have = parts.get(poor).copied().unwrap_or(1.0);
            let donor = cells.get(rich).map_or(0, |cell| cell.slot);
            if let Some(cell) = cells.get_mut(poor) {
                cell.threshold = (have * 4_294_967_296.0) as u32;
                cell.alias = donor;
            }
            if let Some(left) = parts.get_mut(rich) {
                *left -= 1.0 - have;
                if *left < 1.0 {
                    large.pop();
                    small.push(rich);
                }
            }
        }
        WeightedRandom { cells, hosts }
    }

    pub(crate) fn pick(&self, roster: &Roster, alternates: usize, rng: &mut Rng) -> Option<Pick> {
        let mut listing = Listing::start(roster, &self.hosts, self.draw(rng)?);
        for _ in 0..alternates {
            let redrawn = (0..REDRAWS)
                .find_map(|_| self.draw(rng).filter(|&slot| listing.is_on_new_host(slot)));
            if !listing.push(redrawn, rng) {
                break;
            }
        }
        Some(listing.pick())
    }

    /// One random number: its upper half chooses the cell, its lower half the side.
    fn draw(&self, rng: &mut Rng) -> Option<u32> {
        let random = rng.u64(..);
        let cell = self.cells.get(below(self.cells.len(), random))?;
        Some(if (random as u32) < cell.threshold { cell.slot } else { cell.alias })
    }
}
