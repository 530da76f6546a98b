//! How many bytes of a text belong to each class of characters: what a token count is estimated
//! from. Eight bytes at a time, in plain integers, so that it is as fast in a wasm engine.

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

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = ONES << 7;
/// As many words as a byte can count one of each.
const MAX_WORDS: usize = 255;

impl ClassCounts {
    /// Adds a text of whole characters.
    pub fn add(&mut self, text: &[u8]) {
        let mut counter = Counter::default();
        counter.add(&Words::of(text));
        *self = self.plus(&counter.counts());
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

/// A text as whole words of eight bytes and what is left.
pub(super) struct Words<'a> {
    pub whole: &'a [u8],
    /// The bytes that are left, the first one lowest, filled up with zeros.
    pub tail: u64,
    pub tail_len: u32,
}

impl<'a> Words<'a> {
    pub fn of(text: &'a [u8]) -> Words<'a> {
        let tail_len = text.len() % 8;
        let (whole, tail) = text.split_at_checked(text.len() - tail_len).unwrap_or_default();
        let tail = match text.last_chunk() {
            // The last eight bytes without those that are in whole words.
            Some(last) if tail_len > 0 => u64::from_le_bytes(*last) >> (64 - tail_len * 8),
            _ => tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Words { whole, tail, tail_len: tail_len as u32 }
    }
}

/// Counts without adding up, which costs more than counting a short text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    counts: ClassCounts,
    /// Of the words that are not in `counts` yet.
    sums: Sums,
    words: usize,
    bytes: usize,
}

impl Counter {
    pub fn add(&mut self, text: &Words) {
        let mut rest = text.whole;
        while !rest.is_empty() {
            let room = (MAX_WORDS - self.words) * 8;
            let (batch, more) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            // A copy can stay in registers.
            let mut sums = self.sums;
            for word in batch.chunks_exact(8) {
                sums.add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            }
            self.sums = sums;
            self.note(batch.len() / 8, batch.len());
            rest = more;
        }
        if text.tail_len > 0 {
            self.sums.add(text.tail);
            self.note(1, text.tail_len as usize);
        }
    }

    /// ASCII punctuation that stands in no text.
    pub fn add_punctuation(&mut self, bytes: u32) {
        self.counts.punctuation = self.counts.punctuation.saturating_add(bytes);
    }

    fn note(&mut self, words: usize, bytes: usize) {
        self.words += words;
        self.bytes += bytes;
        if self.words >= MAX_WORDS {
            *self = Counter { counts: self.counts(), ..Counter::default() };
        }
    }

    pub fn counts(&self) -> ClassCounts {
        let letters = across(self.sums.letters);
        let digits = across(self.sums.digits);
        // What tails are filled up with are control characters.
        let blank = across(self.sums.blank) - (self.words * 8 - self.bytes) as u32;
        let high = across(self.sums.high);
        let punctuation = self.bytes as u32 - letters - digits - blank - high;
        let cjk = 3 * across(self.sums.cjk_leads);
        let counted = &self.counts;
        ClassCounts {
            letters: counted.letters.saturating_add(letters),
            digits: counted.digits.saturating_add(digits),
            punctuation: counted.punctuation.saturating_add(punctuation),
            blank: counted.blank.saturating_add(blank),
            cjk: counted.cjk.saturating_add(cjk),
            // A character can begin before the words that are added up here, or end behind them.
            other: counted.other.wrapping_add(high).wrapping_sub(cjk),
        }
    }
}

/// For each of a word's eight places, how many bytes of a class were seen there.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    letters: u64,
    digits: u64,
    blank: u64,
    high: u64,
    cjk_leads: u64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, word: u64) {
        let low = word & !TOPS;
        let ascii = !word & TOPS;
        // Adding to seven bits carries into the top one exactly if the byte is at least `from`.
        let at_least = |bytes: u64, from: u8| bytes + ONES * u64::from(0x80 - from);
        let lower = low | (ONES * 0x20);
        self.letters += (at_least(lower, b'a') & !at_least(lower, b'z' + 1) & ascii) >> 7;
        self.digits += (at_least(low, b'0') & !at_least(low, b'9' + 1) & ascii) >> 7;
        self.blank += (!at_least(low, b' ' + 1) & ascii) >> 7;
        if ascii != TOPS {
            let high = word & TOPS;
            self.high += high >> 7;
            // Leading bytes 0xE3 to 0xEF.
            self.cjk_leads += (at_least(low, 0x63) & !at_least(low, 0x70) & high) >> 7;
        }
    }
}

/// The sum of eight bytes, each at most 255.
fn across(sums: u64) -> u32 {
    const EVERY_OTHER: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = (sums & EVERY_OTHER) + ((sums >> 8) & EVERY_OTHER);
    (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
}
