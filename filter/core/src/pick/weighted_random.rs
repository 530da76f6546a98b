//! A node is drawn in proportion to its weight (document B); again, if it may not have the request.
//! Under the cap the draws are spread evenly, and what a node could not have it is given later: the
//! cap takes what chance gives a node above its share and nothing gives it what it lacks, so that
//! of independent draws nodes with small shares would get less than their weights say.

use core::cell::Cell;

use super::alias;
use super::chooser::{Chooser, MAX_DRAWS};
use crate::{random, Rng};

/// The golden ratio: its multiples are spread evenly, wherever they begin and end.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// So many draws are kept: a node waits for room, and those that wait are looked at first.
const MAX_OWED: usize = 8;

/// This VM's draws under the cap since the table came.
#[derive(Default)]
pub(super) struct Draws {
    /// 0 = none yet.
    last: Cell<u64>,
    /// Nodes that were drawn and could not have the request, the oldest first.
    owed: Cell<Vec<u32>>,
}

impl Draws {
    /// Uniform, and evenly spread with those before.
    fn next(&self, rng: &mut Rng) -> u64 {
        let next = match self.last.get() {
            0 => random(rng),
            last => last.wrapping_add(STEP),
        };
        self.last.set(next);
        next
    }
}

pub(super) fn choose(chooser: &mut Chooser, rng: &mut Rng) {
    let pool = chooser.pool;
    if !chooser.rules.dispersion {
        for _ in 0..MAX_DRAWS {
            let Some(slot) = alias::draw(&pool.cells, random(rng)) else { return };
            if chooser.consider(slot) {
                return;
            }
        }
        return;
    }
    let mut owed = pool.draws.owed.take();
    if let Some(place) = owed.iter().position(|&slot| chooser.consider(slot)) {
        owed.remove(place);
    } else {
        for _ in 0..MAX_DRAWS {
            let next = alias::from_line(pool.cells.len(), pool.draws.next(rng));
            let Some(slot) = alias::draw(&pool.cells, next) else { break };
            if chooser.consider(slot) {
                break;
            }
            if owed.len() < MAX_OWED {
                owed.push(slot);
            }
        }
    }
    pool.draws.owed.set(owed);
}
