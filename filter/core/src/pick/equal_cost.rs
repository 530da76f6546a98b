//! The default policy: of some nodes drawn by capacity, and those that hold the beginning of the
//! prompt, the one that would answer first; in the user's rack as long as that is not overloaded.

use super::alias::{self, Cell};
use super::below;
use super::chooser::{Chooser, MAX_DRAWS};
use super::pool::Rack;
use crate::hash::mix;
use crate::number::larger;
use crate::{random, Rng};

/// Two still meet too often by chance; three are as good as four in simulation.
const MIN_DRAWS: usize = 3;
/// A rack's users may load it so many times more than its share of the open requests ...
const RACK_GROWTH: f32 = 1.5;
/// ... or with so many requests more than it for each of its nodes: as many as a node may have more
/// than its share. Chance alone brings some more to a rack now and then.
const NODE_SLACK: f32 = 2.0;

pub(super) fn choose(chooser: &mut Chooser, rng: &mut Rng) {
    let pool = chooser.pool;
    let first_placement = chooser.query.prefix_key.filter(|_| chooser.query.held.is_empty());
    let mut owner = first_placement.map(mix);
    let group = chooser.fleet.roster().group(chooser.query.model);
    let user = chooser.query.user.filter(|_| pool.racks.len() > 1);
    let mut is_first = true;
    if let Some((group, user)) = group.zip(user) {
        for number in group.homes.of(user) {
            let Some(rack) = pool.racks.get(number as usize) else { continue };
            if !has_room(chooser, rack) {
                continue;
            }
            if is_first {
                consider_held(chooser, Some(number));
                is_first = false;
            }
            let span = rack.start..rack.end;
            let cells = pool.rack_cells.get(span).unwrap_or_default();
            draw(chooser, cells, owner.take(), rng);
            if chooser.best.is_some() {
                return;
            }
        }
    }
    if is_first {
        consider_held(chooser, None);
    }
    draw(chooser, &pool.cells, owner, rng);
}

fn has_room(chooser: &Chooser, rack: &Rack) -> bool {
    let factor = chooser.load.standing().factor;
    let share = (chooser.pool.open.get() + factor) * rack.share;
    let nodes = rack.end.saturating_sub(rack.start) as f32;
    let allowed = larger(RACK_GROWTH * share, share + NODE_SLACK * larger(nodes, factor));
    rack.start < rack.end && rack.open.get() + factor <= allowed
}

/// Those in the rack; and from elsewhere those that hold more.
fn consider_held(chooser: &mut Chooser, rack: Option<u32>) {
    let roster = chooser.fleet.roster();
    let is_near = |slot| rack.is_none() || roster.rack_of(slot) == rack;
    let held = chooser.query.held;
    let near = held.iter().filter(|held| is_near(held.slot)).map(|held| held.tokens).max();
    for held in held {
        if is_near(held.slot) || Some(held.tokens) > near {
            chooser.consider(held.slot);
        }
    }
}

/// Draws twice as many as this VM's part of these nodes, for that is how much it knows of what
/// happens to them until the next table: VMs that all look at all of them all take the same one.
fn draw(chooser: &mut Chooser, cells: &[Cell], owner: Option<u64>, rng: &mut Rng) {
    if let Some(slot) = owner.and_then(|owner| alias::draw(cells, owner)) {
        chooser.consider(slot);
    }
    let part = 2.0 * cells.len() as f32 / chooser.load.standing().factor;
    let wanted = (part as usize).clamp(MIN_DRAWS, MAX_DRAWS);
    if cells.len() <= wanted {
        let start = below(cells.len(), random(rng));
        let (head, tail) = cells.split_at_checked(start).unwrap_or((cells, &[]));
        for cell in tail.iter().chain(head) {
            chooser.consider(cell.slot);
        }
        return;
    }
    let mut drawn = [0; MAX_DRAWS];
    let mut len = 0;
    // A bit for the slots with the same remainder: most are known to be new without a search.
    let mut seen: u64 = 0;
    for _ in 0..2 * MAX_DRAWS {
        let Some(slot) = alias::draw(cells, random(rng)) else { return };
        let bit = 1 << (slot % u64::BITS);
        let is_known = seen & bit != 0 && drawn.iter().take(len).any(|known| *known == slot);
        if is_known || !chooser.consider(slot) {
            continue;
        }
        seen |= bit;
        if let Some(place) = drawn.get_mut(len) {
            *place = slot;
        }
        len += 1;
        if len == wanted {
            return;
        }
    }
}
