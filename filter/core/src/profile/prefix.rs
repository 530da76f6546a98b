//! What two prompts have in common at their beginning: hashes of the text up to fixed places, each
//! depending on all text before it, so that an equal hash means an equal prompt up to there.
//!
//! The hash is fast, not cryptographic: a collision costs a wrong guess about a cache.

use super::classes::Words;
use super::section::Section;
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
    hash: u64,
    /// The bytes since the last whole word.
    pending: u64,
    pending_len: u32,
    words: u32,
}

impl TextHash {
    /// Adds a text; the hash at the end of each block goes to `blocks`.
    pub fn add(&mut self, text: &Words, mut blocks: Option<&mut Blocks>) {
        let shift = self.pending_len * 8;
        for word in text.whole.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            self.push(self.pending | word << shift, &mut blocks);
            self.pending = word >> 1 >> (63 - shift);
        }
        let len = self.pending_len + text.tail_len;
        self.pending |= text.tail << shift;
        if len >= 8 {
            self.push(self.pending, &mut blocks);
            self.pending = text.tail >> 1 >> (63 - shift);
        }
        self.pending_len = len % 8;
    }

    #[inline(always)]
    fn push(&mut self, word: u64, blocks: &mut Option<&mut Blocks>) {
        // A bijection for each word: the shift brings down what the product moves up.
        let product = (self.hash ^ word).wrapping_mul(MULTIPLIER);
        self.hash = product ^ (product >> 32);
        self.words = self.words.wrapping_add(1);
        if self.words % BLOCK_WORDS == 0 {
            if let Some(blocks) = blocks {
                blocks.note(self.words / BLOCK_WORDS, self.hash);
            }
        }
    }

    /// The hash of all text so far.
    pub fn value(&self) -> u64 {
        let bytes = u64::from(self.bytes());
        mix(self.hash ^ mix(self.pending ^ bytes.wrapping_mul(MULTIPLIER)))
    }

    /// How long the text is.
    pub fn bytes(&self) -> u32 {
        self.words.wrapping_mul(8).wrapping_add(self.pending_len)
    }
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
