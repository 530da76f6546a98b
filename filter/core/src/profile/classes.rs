//! How many bytes of a text belong to each class of characters: what a token count is estimated
//! from.

use super::sixteen::Sixteen;
use super::words::Words;

/// Bytes by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// ASCII letters.
    pub letters: u32,
    /// ASCII digits.
    pub digits: u32,
    /// ASCII punctuation and symbols.
    pub punctuation: u32,
    /// ASCII space, tab, line feed and the other control characters.
    pub blank: u32,
    /// Characters U+3000 to U+FFFF, three bytes each: Chinese, Japanese, Korean and their
    /// punctuation, and little else.
    pub cjk: u32,
    /// All other characters, two to four bytes each.
    pub other: u32,
}

impl ClassCounts {
    /// Adds a text of whole characters.
    pub fn add(&mut self, text: &[u8]) {
        self.add_words(&Words::of(text));
    }

    pub(super) fn add_words(&mut self, text: &Words) {
        let mut seen = Seen::default();
        let mut sixteens = text.whole.chunks_exact(16);
        for bytes in sixteens.by_ref() {
            seen.add(Sixteen::load(bytes), u32::MAX);
        }
        let rest = sixteens.remainder();
        let end = match rest.first_chunk() {
            Some(word) => u128::from(text.tail) << 64 | u128::from(u64::from_le_bytes(*word)),
            None => text.tail.into(),
        };
        let end_len = rest.len() as u32 + text.tail_len;
        seen.add(Sixteen::of(end), !(u32::MAX << end_len));
        *self = self.plus(&seen.counts(text.len() as u32));
    }

    /// ASCII punctuation that stands in no text.
    pub(super) fn add_punctuation(&mut self, bytes: u32) {
        self.punctuation = self.punctuation.saturating_add(bytes);
    }

    /// All bytes counted.
    pub fn total(&self) -> u32 {
        [self.letters, self.digits, self.punctuation, self.blank, self.cjk, self.other]
            .into_iter()
            .fold(0, u32::saturating_add)
    }

    /// The counts of two texts together.
    pub fn plus(&self, more: &ClassCounts) -> ClassCounts {
        ClassCounts {
            letters: self.letters.saturating_add(more.letters),
            digits: self.digits.saturating_add(more.digits),
            punctuation: self.punctuation.saturating_add(more.punctuation),
            blank: self.blank.saturating_add(more.blank),
            cjk: self.cjk.saturating_add(more.cjk),
            other: self.other.saturating_add(more.other),
        }
    }
}

/// What a text has been seen to have, in bytes or characters.
#[derive(Clone, Copy, Default)]
struct Seen {
    letters: u32,
    digits: u32,
    blank: u32,
    not_ascii: u32,
    cjk: u32,
}

impl Seen {
    /// Only bytes with a bit in `valid` count.
    #[inline(always)]
    fn add(&mut self, bytes: Sixteen, valid: u32) {
        self.letters += (bytes.letters().bits() & valid).count_ones();
        self.digits += (bytes.digits().bits() & valid).count_ones();
        self.blank += (bytes.blanks().bits() & valid).count_ones();
        let not_ascii = bytes.not_ascii().bits();
        if not_ascii != 0 {
            self.not_ascii += not_ascii.count_ones();
            self.cjk += bytes.cjk_leads().bits().count_ones();
        }
    }

    fn counts(&self, bytes: u32) -> ClassCounts {
        let cjk = 3 * self.cjk;
        let others = self.letters + self.digits + self.blank + self.not_ascii;
        ClassCounts {
            letters: self.letters,
            digits: self.digits,
            punctuation: bytes.saturating_sub(others),
            blank: self.blank,
            cjk,
            other: self.not_ascii.saturating_sub(cjk),
        }
    }
}
