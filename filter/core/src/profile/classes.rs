//! How many bytes of a text belong to each class of characters: what a token count is estimated
//! from.

use super::sixteen::{Sixteen, Tally, MAX_TALLY};
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
        let text = Words::of(text);
        let mut rest = text.whole;
        while let Some((batch, behind)) = rest.split_at_checked(16 * MAX_TALLY) {
            self.add_batch(batch, 0, 0);
            rest = behind;
        }
        self.add_batch(rest, text.tail, text.tail_len);
    }

    /// Whole words, fewer than MAX_TALLY times two, or exactly so many without a tail.
    fn add_batch(&mut self, words: &[u8], tail: u64, tail_len: u32) {
        let mut seen = Seen::default();
        let mut sixteens = words.chunks_exact(16);
        for bytes in sixteens.by_ref() {
            seen.add(Sixteen::load(bytes));
        }
        let rest = sixteens.remainder();
        let end = match rest.first_chunk() {
            Some(word) => u128::from(tail) << 64 | u128::from(u64::from_le_bytes(*word)),
            None => tail.into(),
        };
        let end_len = rest.len() as u32 + tail_len;
        let mut filled = 0;
        if end_len > 0 {
            seen.add(Sixteen::of(end));
            filled = 16 - end_len;
        }
        *self = self.plus(&seen.counts(words.len() as u32 + tail_len, filled));
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
            other: self.other.wrapping_add(more.other),
        }
    }
}

/// What a text has been seen to have, in bytes or characters.
#[derive(Clone, Copy, Default)]
struct Seen {
    letters: Tally,
    digits: Tally,
    blanks_and_not_ascii: Tally,
    not_ascii: u32,
    cjk: u32,
}

impl Seen {
    #[inline(always)]
    fn add(&mut self, bytes: Sixteen) {
        self.letters.add(bytes.letters());
        self.digits.add(bytes.digits());
        self.blanks_and_not_ascii.add(bytes.blanks_and_not_ascii());
        let not_ascii = bytes.not_ascii().bits();
        if not_ascii != 0 {
            self.not_ascii += not_ascii.count_ones();
            self.cjk += bytes.cjk_leads().bits().count_ones();
        }
    }

    /// Of a text of so many bytes, which was filled up with so many zeros.
    fn counts(&self, bytes: u32, filled: u32) -> ClassCounts {
        let cjk = 3 * self.cjk;
        let letters = self.letters.total();
        let digits = self.digits.total();
        let blanks_and_not_ascii = self.blanks_and_not_ascii.total() - filled;
        ClassCounts {
            letters,
            digits,
            punctuation: bytes - letters - digits - blanks_and_not_ascii,
            blank: blanks_and_not_ascii - self.not_ascii,
            cjk,
            // A character can begin before the bytes that were looked at, or end behind them.
            other: self.not_ascii.wrapping_sub(cjk),
        }
    }
}
