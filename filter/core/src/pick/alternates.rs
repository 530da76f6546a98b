//! Where a request goes if its node fails: other hosts first, and never a node twice. The first
//! choice is a node of the same rack, so that a user whose node dies stays there.

use super::chooser::Chooser;
use super::{alias, any, below, Pick, Policy, MAX_LISTED};
use crate::roster::Roster;
use crate::{random, Rng};

/// Redraws per alternate before a uniform one on another host is taken. If the hosts listed so far
/// hold half of the weight, one alternate in 16 is uniform.
const REDRAWS: usize = 4;

/// The pick with its alternates: drawn, or the next in the order for min_entropy.
pub(super) fn list(chooser: &Chooser, first: u32, rng: &mut Rng) -> Pick {
    let pool = chooser.pool;
    let mut listing =
        Listing { roster: chooser.fleet.roster(), hosts: &pool.hosts, pick: Pick::of(first) };
    // A runner-up passed over is on a listed host and stays so, or too small: each is looked at
    // once.
    let mut runners_up = pool.order.runners_up.iter().copied();
    let by_order = chooser.rules.policy == Policy::MinEntropy;
    let rack = listing.roster.rack_of(first).and_then(|rack| pool.racks.get(rack as usize));
    let mut near = rack.and_then(|rack| pool.rack_cells.get(rack.start..rack.end));
    for _ in 0..chooser.rules.alternates {
        let is_good = |slot: &u32| listing.is_on_new_host(*slot) && chooser.fits(*slot);
        let mates = near.take().unwrap_or_default();
        let near_draws = if mates.is_empty() { 0 } else { REDRAWS };
        let mut draw = |number| match by_order {
            true => any(&pool.order.best, rng),
            false if number < near_draws => alias::draw(mates, random(rng)),
            false => alias::draw(&pool.cells, random(rng)),
        };
        let next = (0..near_draws + REDRAWS).find_map(|number| draw(number).filter(is_good));
        let next = next.or_else(|| runners_up.find(is_good));
        if !listing.push(next, rng) {
            break;
        }
    }
    listing.pick
}

/// The eligible slots grouped by host, so that "any node outside these hosts" is one draw.
pub(super) struct Hosts {
    slots: Vec<u32>,
    /// Per host, where its slots end; they start where those of the host before it end.
    ends: Vec<usize>,
}

/// A part of `Hosts::slots`: start and end.
type Span = (usize, usize);

impl Hosts {
    pub(super) fn build(roster: &Roster, eligible: &dyn Fn(u32) -> bool) -> Hosts {
        let mut slots = Vec::with_capacity(roster.nodes().len());
        let mut ends = Vec::new();
        for &slot in roster.by_host() {
            // by_host numbers hosts in order, so a new host is always the next number.
            if roster.host_of(slot) == Some(ends.len() as u32) {
                ends.push(slots.len());
            }
            if eligible(slot) {
                slots.push(slot);
            }
            if let Some(end) = ends.last_mut() {
                *end = slots.len();
            }
        }
        Hosts { slots, ends }
    }

    fn span(&self, host: u32) -> Option<Span> {
        let start = match (host as usize).checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        Some((start, *self.ends.get(host as usize)?))
    }

    /// Where the slot itself stands: a host's slots are in rising order.
    fn place(&self, host: u32, slot: u32) -> Option<Span> {
        let (start, end) = self.span(host)?;
        let place = start + self.slots.get(start..end)?.partition_point(|&other| other < slot);
        Some((place, place + 1))
    }

    /// A uniform slot outside the spans. They may repeat, but then they must be all there is: the
    /// sum of their lengths is not below the whole.
    fn outside(&self, spans: &mut [Span], rng: &mut Rng) -> Option<u32> {
        let taken: usize = spans.iter().map(|(start, end)| end - start).sum();
        let left = self.slots.len().checked_sub(taken)?;
        let mut place = below(left, random(rng));
        // Each span that the place has come to moves it on, once.
        while let Some(span) = spans.iter_mut().find(|(start, _)| *start <= place) {
            place += span.1 - span.0;
            *span = (usize::MAX, usize::MAX);
        }
        self.slots.get(place).copied()
    }
}

/// The list of one request while it grows.
struct Listing<'a> {
    roster: &'a Roster,
    hosts: &'a Hosts,
    pick: Pick,
}

impl Listing<'_> {
    /// Is the slot on a host that the list does not have yet?
    fn is_on_new_host(&self, slot: u32) -> bool {
        let host = self.roster.host_of(slot);
        self.pick.slots().iter().all(|&listed| self.roster.host_of(listed) != host)
    }

    /// Adds `found`, or else any node on a new host, or else any other node; false if there is
    /// none or no room.
    fn push(&mut self, found: Option<u32>, rng: &mut Rng) -> bool {
        let next = found
            .or_else(|| self.outside_listed(true, rng))
            .or_else(|| self.outside_listed(false, rng));
        next.is_some_and(|slot| self.pick.push(slot))
    }

    /// A uniform slot that is not listed, and not on a listed host either if `whole_hosts`. Two
    /// listed slots share a host only once every host is listed.
    fn outside_listed(&self, whole_hosts: bool, rng: &mut Rng) -> Option<u32> {
        let mut spans = [(0, 0); MAX_LISTED];
        let mut len = 0;
        for (place, &slot) in spans.iter_mut().zip(self.pick.slots()) {
            let host = self.roster.host_of(slot)?;
            *place =
                if whole_hosts { self.hosts.span(host)? } else { self.hosts.place(host, slot)? };
            len += 1;
        }
        self.hosts.outside(spans.get_mut(..len)?, rng)
    }
}
