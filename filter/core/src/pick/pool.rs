//! The nodes that may serve a sort of requests under one policy, made ready for draws.

use core::cell::Cell;

use super::alias::{self, Cell as AliasCell};
use super::alternates::Hosts;
use super::min_entropy::Order;
use super::weighted_random::Draws;
use super::Policy;
use crate::fleet::Fleet;
use crate::load::Load;
use crate::models::Member;
use crate::roster::Roster;

/// So many nodes with the largest KV caches are known, for requests that fit hardly anywhere.
const ROOMY: usize = 16;

/// What the pool knows of a slot.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// The most tokens of input and output together; infinite if not known.
    pub limit_tokens: f32,
    /// Of the pool's traffic; 0 = not in the pool.
    pub share: f32,
}

/// The part of a pool that stands in one rack.
pub(super) struct Rack {
    pub start: usize,
    pub end: usize,
    /// Of the pool's traffic.
    pub share: f32,
    /// Requests, as projected for the whole fleet.
    pub open: Cell<f32>,
}

pub(crate) struct Pool {
    /// One rack after the other.
    pub(super) slots: Vec<u32>,
    pub(super) cells: Vec<AliasCell>,
    /// By number; only for equal_cost.
    pub(super) racks: Vec<Rack>,
    /// The alias tables of the racks, where their slots are in `slots`.
    pub(super) rack_cells: Vec<AliasCell>,
    /// By slot.
    places: Vec<Place>,
    /// The nodes with the highest limits, falling.
    pub(super) roomy: Vec<u32>,
    pub(super) hosts: Hosts,
    /// Only for min_entropy.
    pub(super) order: Order,
    /// Only for weighted_random.
    pub(super) draws: Draws,
    /// What this VM sent to the pool's nodes since the table came.
    pub(super) dispatched: Cell<u32>,
    /// Requests, as projected for the whole fleet.
    pub(super) open: Cell<f32>,
}

impl Pool {
    pub fn build(
        fleet: &Fleet,
        policy: Policy,
        members: &[Member],
        class: usize,
        load: &Load,
    ) -> Pool {
        let roster = fleet.roster();
        let part = |slot: u32| fleet.row(slot).map_or(0.0, |row| row.part(policy));
        let mut places = vec![Place::default(); roster.nodes().len()];
        let mut sum = 0.0;
        for member in members.iter().filter(|one| roster.in_length_class(one.slot, class)) {
            if let Some(place) = places.get_mut(member.slot as usize) {
                let kv = fleet.row(member.slot).map_or(0.0, |row| row.kv_capacity_tokens);
                *place = Place {
                    limit_tokens: known_limit(kv).min(known_limit(member.max_length_tokens as f32)),
                    share: part(member.slot),
                };
                sum += f64::from(place.share);
            }
        }
        // f32::MAX each is allowed, so the shares can round to nothing.
        for place in places.iter_mut().filter(|place| place.share > 0.0) {
            place.share = ((f64::from(place.share) / sum) as f32).max(f32::MIN_POSITIVE);
        }
        let share = |slot: u32| places.get(slot as usize).map_or(0.0, |place| place.share);
        let limit = |slot: u32| places.get(slot as usize).map_or(0.0, |place| place.limit_tokens);
        let mut pool = Pool {
            slots: Vec::with_capacity(members.len()),
            cells: Vec::new(),
            racks: Vec::new(),
            rack_cells: Vec::new(),
            roomy: Vec::with_capacity(ROOMY + 1),
            hosts: Hosts::build(roster, &|slot| share(slot) > 0.0),
            order: Order::default(),
            draws: Draws::default(),
            dispatched: Cell::new(0),
            open: Cell::new(0.0),
            places: Vec::new(),
        };
        for &slot in roster.by_rack() {
            let (Some(row), true) = (fleet.row(slot), share(slot) > 0.0) else { continue };
            if policy == Policy::EqualCost {
                pool.enter_rack(
                    roster.rack_of(slot).unwrap_or(0),
                    share(slot),
                    load.project(slot, row).open,
                );
            }
            pool.slots.push(slot);
            pool.dispatched.set(pool.dispatched.get() + row.dispatched.get());
            if let Some(rack) = pool.racks.last_mut() {
                rack.end = pool.slots.len();
            }
            let behind = pool.roomy.iter().position(|&other| limit(other) < limit(slot));
            pool.roomy.insert(behind.unwrap_or(pool.roomy.len()), slot);
            pool.roomy.truncate(ROOMY);
        }
        alias::append(&pool.slots, &part, &mut pool.cells);
        if pool.racks.len() > 1 {
            for rack in &pool.racks {
                let slots = pool.slots.get(rack.start..rack.end).unwrap_or_default();
                alias::append(slots, &part, &mut pool.rack_cells);
            }
        }
        if policy == Policy::MinEntropy {
            pool.order = Order::build(&pool.slots, fleet);
        }
        pool.places = places;
        pool
    }

    fn enter_rack(&mut self, number: u32, share: f32, open: f32) {
        let start = self.slots.len();
        while self.racks.len() <= number as usize {
            self.racks.push(Rack { start, end: start, share: 0.0, open: Cell::new(0.0) });
        }
        if let Some(rack) = self.racks.last_mut() {
            rack.share += share;
        }
        self.add_open(number, open);
    }

    fn add_open(&self, rack: u32, open: f32) {
        self.open.set(self.open.get() + open);
        if let Some(rack) = self.racks.get(rack as usize) {
            rack.open.set(rack.open.get() + open);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn place(&self, slot: u32) -> Place {
        self.places.get(slot as usize).copied().unwrap_or_default()
    }

    /// A request of this VM went there, one of `factor` of the fleet.
    pub fn sent_to(&self, slot: u32, roster: &Roster, factor: f32) {
        if self.place(slot).share > 0.0 {
            self.dispatched.set(self.dispatched.get().saturating_add(1));
            self.add_open(roster.rack_of(slot).unwrap_or(0), factor);
        }
    }
}

fn known_limit(tokens: f32) -> f32 {
    if tokens > 0.0 {
        tokens
    } else {
        f32::INFINITY
    }
}
