//! A text in words of eight bytes.

/// A text as whole words and what is left.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    text: &'a [u8],
    pub whole: &'a [u8],
    /// The bytes that are left, the first one lowest, filled up with zeros.
    pub tail: u64,
    pub tail_len: u32,
}

impl<'a> Words<'a> {
    pub fn of(text: &'a [u8]) -> Words<'a> {
        Words { text, whole: &[], tail: 0, tail_len: 0 }.behind(0)
    }

    /// What is behind so many bytes of the text.
    pub fn behind(self, bytes: usize) -> Words<'a> {
        let rest = self.text.get(bytes..).unwrap_or_default();
        let tail_len = rest.len() % 8;
        let (whole, tail) = rest.split_at_checked(rest.len() - tail_len).unwrap_or_default();
        let tail = match self.text.last_chunk() {
            // The last eight bytes without those that come before.
            Some(last) if tail_len > 0 => u64::from_le_bytes(*last) >> (64 - tail_len * 8),
            _ => tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Words { text: rest, whole, tail, tail_len: tail_len as u32 }
    }

    /// The first eight bytes, filled up with zeros.
    pub fn first(&self) -> u64 {
        self.whole.first_chunk().map_or(self.tail, |word| u64::from_le_bytes(*word))
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }
}
