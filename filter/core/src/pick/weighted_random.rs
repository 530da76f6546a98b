//! A node is drawn in proportion to its weight (document B); again, if it may not have the request.

use super::alias;
use super::chooser::{Chooser, MAX_DRAWS};
use crate::{random, Rng};

pub(super) fn choose(chooser: &mut Chooser, rng: &mut Rng) {
    let cells = &chooser.pool.cells;
    for _ in 0..MAX_DRAWS {
        let Some(slot) = alias::draw(cells, random(rng)) else { return };
        if chooser.consider(slot) {
            return;
        }
    }
}
