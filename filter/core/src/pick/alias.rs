//! Draws in proportion, in constant time (Vose's alias method).

use super::below;

/// `slot` if the draw's fraction is below `threshold`, else `alias`.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    threshold: u32,
    pub slot: u32,
    alias: u32,
}

/// Appends the table of these slots; `part` is finite and greater than 0.
pub(super) fn append(slots: &[u32], part: &dyn Fn(u32) -> f32, out: &mut Vec<Cell>) {
    let start = out.len();
    // f64: the sum of any number of finite f32 stays finite.
    let mut parts: Vec<f64> = slots.iter().map(|&slot| f64::from(part(slot))).collect();
    let scale = parts.len() as f64 / parts.iter().sum::<f64>();
    let mut small = Vec::with_capacity(parts.len());
    let mut large = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter_mut().enumerate() {
        *part *= scale;
        let list = if *part < 1.0 { &mut small } else { &mut large };
        list.push(index);
    }
    out.extend(slots.iter().map(|&slot| Cell { threshold: u32::MAX, slot, alias: slot }));
    let cells = out.get_mut(start..).unwrap_or_default();
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
}

/// The random number for a draw where cells and their sides lie on one line, of which the upper half
/// of `place` is a point: numbers that are spread evenly draw evenly.
pub(super) fn from_line(cells: usize, place: u64) -> u64 {
    let point = place >> 32;
    (point << 32) | u64::from((point as u32).wrapping_mul(cells as u32))
}

/// One draw: the upper half of `random` chooses the cell, its lower half the side.
pub(super) fn draw(cells: &[Cell], random: u64) -> Option<u32> {
    let cell = cells.get(below(cells.len(), random))?;
    Some(if (random as u32) < cell.threshold { cell.slot } else { cell.alias })
}
