//! The objects and arrays that are open, and what each of them is.

use super::shapes::{Meaning, Medium};

/// Deeper bodies are not read on. Requests are some ten deep; tools' schemas a few more.
pub const MAX_DEPTH: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    meanings: [Meaning; MAX_DEPTH],
    depth: usize,
    /// One bit for each level: is it an object, and was an image or audio counted in it?
    objects: u64,
    images: u64,
    audios: u64,
}

impl Default for Stack {
    fn default() -> Self {
        let meanings = [Meaning::Ignored; MAX_DEPTH];
        Stack { meanings, depth: 0, objects: 0, images: 0, audios: 0 }
    }
}

impl Stack {
    /// False if there is no room.
    pub fn push(&mut self, meaning: Meaning, is_object: bool) -> bool {
        let Some(place) = self.meanings.get_mut(self.depth) else { return false };
        *place = meaning;
        let level = 1 << self.depth;
        self.depth += 1;
        self.images &= !level;
        self.audios &= !level;
        self.objects &= !level;
        if is_object {
            self.objects |= level;
        }
        true
    }

    pub fn pop(&mut self) -> Meaning {
        let meaning = self.top();
        self.depth = self.depth.saturating_sub(1);
        meaning
    }

    /// What the innermost one is.
    pub fn top(&self) -> Meaning {
        let index = self.depth.wrapping_sub(1);
        self.meanings.get(index).copied().unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.depth == 0
    }

    pub fn in_object(&self) -> bool {
        self.objects & self.level() != 0
    }

    /// Is this the first medium of its kind in the innermost one?
    pub fn is_first(&mut self, medium: Medium) -> bool {
        let level = self.level();
        let seen = match medium {
            Medium::Image => &mut self.images,
            Medium::Audio => &mut self.audios,
        };
        let first = *seen & level == 0;
        *seen |= level;
        first
    }

    fn level(&self) -> u64 {
        1u64.wrapping_shl(self.depth.wrapping_sub(1) as u32) * u64::from(self.depth > 0)
    }
}
