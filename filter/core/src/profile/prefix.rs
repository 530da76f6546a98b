//! What two prompts have in common at their beginning: hashes of the text up to fixed places, each
//! depending on all text before it, so that an equal hash means an equal prompt up to there.
//!
//! The hash is fast, not cryptographic: a collision costs a wrong guess about a cache.

use super::section::Section;
use super::words::Words;
use crate::hash::mix;

/// Blocks of a section end every KiB at first (a system prompt, a short conversation), then every 4
/// and every 16 KiB: a guess that is wrong by less than a quarter of what is common costs little, and
/// each block is an entry in an index. Up to 256 KiB.
pub const MAX_BLOCKS: usize = 40;
/// The first block's size, which all others are multiples of; about 256 tokens of English.
pub const BLOCK_BYTES: u32 = 1024;

const BLOCK_WORDS: u32 = BLOCK_BYTES / 8;
/// Odd and without a pattern (the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a text, taken in pieces of any size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextHash {
    lanes: Lanes,
    /// The bytes since the last whole word.
    pending: u64,
    pending_len: u32,
    words: u32,
}

impl TextHash {
    /// Adds a text; the hash at the end of each block goes to `blocks`.
    pub fn add(&mut self, text: &Words, mut blocks: Option<&mut Blocks>) {
        let mut text = *text;
        let begun = self.pending_len;
        if begun > 0 {
            // What the word has no room for is shifted out, and comes in the next one.
            self.pending |= text.first() << (begun * 8);
            if (text.len() as u32) < 8 - begun {
                self.pending_len += text.tail_len;
                return;
            }
            self.add_whole(&self.pending.to_le_bytes(), &mut blocks);
            text = text.behind(8 - begun as usize);
        }
        self.add_whole(text.whole, &mut blocks);
        self.pending = text.tail;
        self.pending_len = text.tail_len;
    }

    fn add_whole(&mut self, mut words: &[u8], blocks: &mut Option<&mut Blocks>) {
        while !words.is_empty() {
            let room = (BLOCK_WORDS - self.words % BLOCK_WORDS) as usize * 8;
            let (run, behind) = words.split_at_checked(room).unwrap_or((words, &[]));
            self.lanes.add(run);
            self.words = self.words.wrapping_add(run.len() as u32 / 8);
            if run.len() == room {
                if let Some(blocks) = blocks {
                    blocks.note(self.words / BLOCK_WORDS, self.lanes.value());
                }
            }
            words = behind;
        }
    }

    /// The hash of all text so far.
    pub fn value(&self) -> u64 {
        let bytes = u64::from(self.bytes());
        mix(self.lanes.value() ^ mix(self.pending ^ bytes.wrapping_mul(MULTIPLIER)))
    }

    /// How long the text is.
    pub fn bytes(&self) -> u32 {
        self.words.wrapping_mul(8).wrapping_add(self.pending_len)
    }
}

/// Words go to four hashes in turn, which a processor can work on at the same time. The first is
/// that of the next word.
#[derive(Clone, Copy, Debug, Default)]
struct Lanes([u64; 4]);

impl Lanes {
    fn add(&mut self, words: &[u8]) {
        let Lanes([mut a, mut b, mut c, mut d]) = *self;
        let mut rounds = words.chunks_exact(32);
        for round in rounds.by_ref() {
            let (first, rest) = split_word(round);
            let (second, rest) = split_word(rest);
            let (third, rest) = split_word(rest);
            let (fourth, _) = split_word(rest);
            (a, b) = (hashed(a, first), hashed(b, second));
            (c, d) = (hashed(c, third), hashed(d, fourth));
        }
        let mut rest = rounds.remainder();
        while !rest.is_empty() {
            let (word, behind) = split_word(rest);
            (a, b, c, d) = (b, c, d, hashed(a, word));
            rest = behind;
        }
        *self = Lanes([a, b, c, d]);
    }

    fn value(&self) -> u64 {
        self.0.iter().fold(0, |value, lane| hashed(value, *lane))
    }
}

#[inline(always)]
fn split_word(bytes: &[u8]) -> (u64, &[u8]) {
    bytes.split_first_chunk().map_or((0, &[]), |(word, rest)| (u64::from_le_bytes(*word), rest))
}

/// A bijection for each word: the shift brings down what the product moves up.
#[inline(always)]
fn hashed(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(MULTIPLIER);
    product ^ (product >> 32)
}

/// The hash of a text that follows another.
pub(crate) fn after(before: u64, hash: u64) -> u64 {
    mix(before.wrapping_mul(MULTIPLIER) ^ hash)
}

/// Where block `index` (from 0) ends, in units of BLOCK_BYTES.
fn block_end(index: usize) -> u32 {
    let index = index as u32 + 1;
    index + 3 * index.saturating_sub(16) + 12 * index.saturating_sub(28)
}

/// The hashes at the blocks' ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    hashes: [u64; MAX_BLOCKS],
    len: usize,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks { hashes: [0; MAX_BLOCKS], len: 0 }
    }
}

impl Blocks {
    /// Takes the hash of so many times BLOCK_BYTES, if a block ends there.
    fn note(&mut self, end: u32, hash: u64) {
        if end == block_end(self.len) {
            if let Some(place) = self.hashes.get_mut(self.len) {
                *place = mix(hash);
                self.len += 1;
            }
        }
    }

    /// Appends each block's end where the section follows so many bytes with that hash.
    #[inline(never)]
    fn append(&self, before: u64, bytes: u32, ends: &mut Vec<Boundary>) {
        for (index, &hash) in self.hashes.iter().take(self.len).enumerate() {
            let end = Boundary { hash, text_bytes: block_end(index) * BLOCK_BYTES };
            ends.push(end.behind(before, bytes));
        }
    }
}

/// A place in the prompt, and the hash of all that comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub hash: u64,
    /// Bytes of hashed text before it: of the system prompt and the messages, with one more at
    /// the end of each message.
    pub text_bytes: u32,
}

/// The hash chain of a prompt. The tools, then the system prompt, then the messages, whatever
/// their order in the body. It does not depend on the model: who keeps it adds that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The ends of all whole blocks, in the prompt's order. A system prompt of its own has its own
    /// blocks.
    pub blocks: Vec<Boundary>,
    /// After the system prompt.
    pub system: Option<Boundary>,
    /// After the first message of the user: it names the conversation.
    pub first_turn: Option<Boundary>,
    /// Bytes of hashed text in all, as a boundary counts them.
    pub text_bytes: u32,
}

impl Prefix {
    pub(super) fn chain(tools: &Section, system: &Section, turns: &Section) -> Prefix {
        let tools = if tools.is_empty() { 0 } else { tools.here().hash };
        let system_bytes = system.here().text_bytes;
        let mut prefix =
            Prefix { blocks: Vec::new(), system: None, first_turn: None, text_bytes: system_bytes };
        prefix.blocks.reserve_exact(system.blocks.len + turns.blocks.len);
        system.blocks.append(tools, 0, &mut prefix.blocks);
        let end = system.system.map(|end| end.behind(tools, 0));
        // Whatever follows a system prompt that is not known to its end is not known.
        if end.is_some() || system.is_empty() {
            let base = end.map_or(tools, |end| end.hash);
            let follows = |end: Boundary| end.behind(base, system_bytes);
            turns.blocks.append(base, system_bytes, &mut prefix.blocks);
            prefix.system = turns.system.map(follows).or(end);
            prefix.first_turn = turns.first_turn.map(follows);
            prefix.text_bytes = turns.here().behind(base, system_bytes).text_bytes;
        }
        prefix
    }
}

impl Boundary {
    /// The place in a prompt in which this section follows so many bytes with that hash.
    fn behind(self, before: u64, bytes: u32) -> Boundary {
        let text_bytes = bytes.saturating_add(self.text_bytes);
        Boundary { hash: after(before, self.hash), text_bytes }
    }
}
