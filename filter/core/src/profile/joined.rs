//! The text of a string with escapes, put together again: what follows takes a long text much faster
//! than many short ones.

const ROOM: usize = 256;
/// Copied at once, whether or not the text is that long.
const STEP: usize = 16;

/// Text of whole characters that was read and not yet handed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    bytes: [u8; ROOM],
    len: usize,
}

impl Default for Joined {
    fn default() -> Self {
        Joined { bytes: [0; ROOM], len: 0 }
    }
}

impl Joined {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the first `len` of these bytes; false if there is no room.
    pub fn push(&mut self, bytes: &[u8], len: usize) -> bool {
        let Some(places) = self.bytes.get_mut(self.len..) else { return false };
        if places.len() < len + STEP {
            return false;
        }
        self.len += len;
        let mut steps = bytes.chunks_exact(STEP);
        let mut left = len;
        for (to, from) in places.chunks_exact_mut(STEP).zip(steps.by_ref()) {
            to.copy_from_slice(from);
            match left.checked_sub(STEP) {
                Some(more) => left = more,
                None => return true,
            }
        }
        // At the end of the bytes.
        let done = len - left;
        let rest = bytes.get(done..len).unwrap_or_default();
        let places = places.iter_mut().skip(done);
        places.zip(rest).for_each(|(to, from)| *to = *from);
        true
    }

    /// Takes all of it out.
    pub fn take(&mut self) -> &[u8] {
        let len = core::mem::take(&mut self.len);
        self.bytes.get(..len).unwrap_or_default()
    }
}
