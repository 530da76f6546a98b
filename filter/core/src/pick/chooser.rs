//! The best of a request's candidates: which of them may have it, and what each would cost.

use super::cost::predicted_s;
use super::dispersion::room;
use super::pool::Pool;
use super::{below, Policy, Query, Rules};
use crate::fleet::Fleet;
use crate::load::Load;
use crate::{random, Rng};

/// The most candidates that a pick draws.
pub(super) const MAX_DRAWS: usize = 16;
/// The search for a node with room looks at so many; it starts anywhere, and hardly ever begins.
const MAX_SEARCH: usize = 1024;

/// One pick while its candidates are looked at.
pub(super) struct Chooser<'a> {
    pub fleet: &'a Fleet,
    pub pool: &'a Pool,
    pub rules: &'a Rules,
    pub query: &'a Query<'a>,
    pub load: &'a Load,
    /// Room for the prompt and the answer; if the request fits nowhere, that of the largest node.
    pub needed_tokens: f32,
    /// Only for min_entropy: what each request since the table adds, on capacity 1.
    pub request_entropy: f32,
    pub best: Option<u32>,
    pub best_cost: f32,
}

impl Chooser<'_> {
    /// Tokens of the prompt that the node in this slot holds.
    pub fn held(&self, slot: u32) -> u32 {
        let held = self.query.held.iter().find(|held| held.slot == slot);
        held.map_or(0, |held| held.tokens.min(self.query.prompt_tokens))
    }

    pub fn fits(&self, slot: u32) -> bool {
        self.needed_tokens <= self.pool.place(slot).limit_tokens
    }

    fn room(&self, slot: u32) -> f32 {
        if !self.rules.dispersion {
            return 0.0;
        }
        let is_known = || self.query.held.iter().any(|held| held.slot == slot);
        room(self.fleet, self.pool, self.load.standing(), slot, &is_known)
    }

    /// The projected entropy, or the predicted time. A draw by weight asks for neither.
    fn cost(&self, slot: u32) -> f32 {
        let Some(row) = self.fleet.row(slot) else { return f32::MAX };
        match self.rules.policy {
            Policy::WeightedRandom => 0.0,
            Policy::MinEntropy if !self.rules.projection => row.entropy,
            Policy::MinEntropy => {
                let added = self.load.opened_since(slot) * self.request_entropy;
                row.entropy + added / row.part(Policy::MinEntropy)
            }
            Policy::EqualCost => {
                let now =
                    if self.rules.projection { self.load.project(slot, row) } else { row.load };
                let uncached = self.query.prompt_tokens - self.held(slot);
                predicted_s(row, &now, uncached as f32, self.query.tokens() as f32)
            }
        }
    }

    /// Takes the node if it may have the request and costs less than the best so far; false if it
    /// may not.
    pub fn consider(&mut self, slot: u32) -> bool {
        if self.pool.place(slot).share <= 0.0 || !self.fits(slot) || self.room(slot) < 0.0 {
            return false;
        }
        let cost = self.cost(slot);
        if self.best.is_none() || cost < self.best_cost {
            self.best = Some(slot);
            self.best_cost = cost;
        }
        true
    }

    /// Takes some node where no draw found one that may have the request: one with room if there
    /// is any, else that which has least too much.
    pub fn take_any(&mut self, rng: &mut Rng) {
        let roomy = &self.pool.roomy;
        let fits_elsewhere = roomy.last().is_some_and(|&slot| self.fits(slot));
        let slots = if fits_elsewhere { &self.pool.slots } else { roomy };
        let start = below(slots.len(), random(rng));
        let (head, tail) = slots.split_at_checked(start).unwrap_or((slots, &[]));
        let mut least = (f32::NEG_INFINITY, None);
        for &slot in tail.iter().chain(head).take(MAX_SEARCH) {
            if self.consider(slot) && fits_elsewhere {
                return;
            }
            let room = self.room(slot);
            if self.fits(slot) && room > least.0 {
                least = (room, Some(slot));
            }
        }
        self.best = self.best.or(least.1);
    }
}
