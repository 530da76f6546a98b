//! Choosing the nodes of one request.

mod alternates;
mod min_entropy;
mod weighted_random;

pub(crate) use min_entropy::MinEntropy;
pub(crate) use weighted_random::WeightedRandom;

use crate::table::{NodeState, Table};
use crate::Rng;

/// How nodes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    WeightedRandom,
    MinEntropy,
}

impl Policy {
    /// The name in configuration and access log.
    pub fn name(self) -> &'static str {
        match self {
            Policy::WeightedRandom => "weighted_random",
            Policy::MinEntropy => "min_entropy",
        }
    }
}

/// Why a request has the destination it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Picked,
    NoTable,
    StaleTable,
    NoEligible,
    /// Envoy did not do or say what the choice needs.
    HostFailure,
}

impl Reason {
    /// The name in the access log.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Picked => "picked",
            Reason::NoTable => "no_table",
            Reason::StaleTable => "stale_table",
            Reason::NoEligible => "no_eligible",
            Reason::HostFailure => "host_failure",
        }
    }
}

/// The most alternates a pick can have.
pub const MAX_ALTERNATES: usize = 8;
const MAX_LISTED: usize = MAX_ALTERNATES + 1;

/// The chosen slots, best first, all different. Small and Copy: every open request holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    slots: [u32; MAX_LISTED],
    len: u8,
}

impl Pick {
    fn of(slot: u32) -> Pick {
        let mut slots = [0; MAX_LISTED];
        let [first, ..] = &mut slots;
        *first = slot;
        Pick { slots, len: 1 }
    }

    /// Adds an alternate; false if there is no room.
    fn push(&mut self, slot: u32) -> bool {
        match self.slots.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = slot;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The slots in the order in which Envoy tries them; never empty.
    pub fn slots(&self) -> &[u32] {
        self.slots.get(..usize::from(self.len)).unwrap_or(&self.slots)
    }

    /// The slot of the pick itself.
    pub fn first(&self) -> u32 {
        let [first, ..] = self.slots;
        first
    }
}

/// The slot's entropy, if a node with this state and entropy may be listed at all.
fn eligible_entropy(table: &Table, slot: u32) -> Option<f32> {
    let state = NodeState::from_byte(*table.state.get(slot as usize)?);
    let entropy = *table.entropy.get(slot as usize)?;
    (state.eligible() && entropy.is_finite()).then_some(entropy)
}

/// The slot's weight, if the node may be drawn by weight.
fn eligible_weight(table: &Table, slot: u32) -> Option<f32> {
    let weight = *table.weight.get(slot as usize)?;
    eligible_entropy(table, slot)?;
    (weight.is_finite() && weight > 0.0).then_some(weight)
}

/// A uniform number below `bound` out of the upper half of `random`, by multiplication: the bias is
/// below bound / 2^32.
fn below(bound: usize, random: u64) -> usize {
    (((random >> 32) * bound as u64) >> 32) as usize
}

/// A uniform member.
fn any(slots: &[u32], rng: &mut Rng) -> Option<u32> {
    slots.get(below(slots.len(), rng.u64(..))).copied()
}
