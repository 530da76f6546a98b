//! No burst may herd: between two tables no node gets more than a quarter over its share of the
//! requests, or two more than it; not even if all VMs of the fleet think it the best.

use super::pool::Pool;
use crate::fleet::Fleet;
use crate::load::Standing;
use crate::number::larger;

/// A node may have so many times its share ...
const GROWTH: f32 = 1.25;
/// ... or less where others send too, whose counts are not known: their errors add up.
const SHARED_GROWTH: f32 = 1.15;
/// Or so many more than its share, all VMs together; again less for more than two.
const SLACK: f32 = 2.0;
const SHARED_SLACK: f32 = 1.5;
/// A VM's first requests may go to any node that has none of it, so that many VMs with little
/// traffic are free in their choice; and one more for so many nodes of a VM's part of the pool.
const FREE: f32 = 2.0;
const NODES_PER_FREE: f32 = 16.0;
/// The golden ratio: its multiples are spread evenly.
const SPREAD: f32 = 0.618_034;

/// How many requests more than it has the node may get; it gets none below 0. `is_known_there` says
/// whether the node holds the beginning of the prompt.
///
/// Two VMs have one more than their share each, so that together they never have more than two.
/// More of them cannot each round up, so each has its own rounding for each node: the fractional
/// part of its place among the VMs and the node's place. For equal shares the sum over all VMs of
/// floor(y + j/V + h) is floor(V y + h') (Hermite's identity): no more than one VM would allow.
pub(super) fn room(
    fleet: &Fleet,
    pool: &Pool,
    standing: Standing,
    slot: u32,
    is_known_there: &dyn Fn() -> bool,
) -> f32 {
    let Some(row) = fleet.row(slot) else { return f32::NEG_INFINITY };
    let count = row.dispatched.get() as f32;
    let total = pool.dispatched.get() as f32;
    let share = (total + 1.0) * pool.place(slot).share;
    if standing.vms == 1 {
        return larger(GROWTH * share, share + SLACK) - count - 1.0;
    }
    if standing.vms == 2 {
        return larger(SHARED_GROWTH * share, share + 0.5 * SLACK) - count - 1.0;
    }
    let factor = standing.factor;
    if count == 0.0 && (total < free(pool, factor) || is_known_there()) {
        return 0.0;
    }
    let allowed = larger(SHARED_GROWTH * share, share + SHARED_SLACK / factor);
    let place = standing.shares_through + slot as f32 * SPREAD;
    allowed - 1.0 / factor + place.fract() - count - 1.0
}

fn free(pool: &Pool, factor: f32) -> f32 {
    if pool.order.best.is_empty() {
        FREE + pool.slots.len() as f32 / (NODES_PER_FREE * factor)
    } else {
        // All VMs have the same order.
        0.0
    }
}
