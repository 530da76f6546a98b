//! What two prompts have in common at their beginning: hashes of the text up to fixed places, each
//! depending on all text before it, so that an equal hash means an equal prompt up to there.
//!
//! The hash is fast, not cryptographic: a collision costs a wrong guess about a cache.

use super::classes::Words;
use super::section::Section;

/// A block of prompt text; about 128 tokens of English.
pub const BLOCK_BYTES: u32 = 512;
/// So many blocks are told apart: 32 KiB of text.
pub const MAX_BLOCKS: usize = 64;

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
                blocks.push(mix(self.hash));
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

/// Every bit of the result depends on every bit of the number (splitmix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The hash of a text that follows another.
fn after(before: u64, hash: u64) -> u64 {
    mix(before.wrapping_mul(MULTIPLIER) ^ hash)
}

/// At most MAX_BLOCKS hashes; more are dropped.
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
    fn push(&mut self, hash: u64) {
        if let Some(place) = self.hashes.get_mut(self.len) {
            *place = hash;
            self.len += 1;
        }
    }

    pub fn all(&self) -> &[u64] {
        self.hashes.get(..self.len).unwrap_or_default()
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
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    blocks: Blocks,
    system_blocks: usize,
    system_bytes: u32,
    /// After the system prompt.
    pub system: Option<Boundary>,
    /// After the first message of the user: it names the conversation.
    pub first_turn: Option<Boundary>,
}

impl Prefix {
    pub(super) fn chain(tools: &Section, system: &Section, turns: &Section) -> Prefix {
        let tools = if tools.is_empty() { 0 } else { tools.here().hash };
        let mut blocks = Blocks::default();
        system.blocks.all().iter().for_each(|hash| blocks.push(after(tools, *hash)));
        let system_blocks = blocks.len;
        let end = system.system.map(|end| Boundary { hash: after(tools, end.hash), ..end });
        let (base, system_bytes) = end.map_or((tools, 0), |end| (end.hash, end.text_bytes));
        let mut prefix =
            Prefix { blocks, system_blocks, system_bytes, system: end, first_turn: None };
        // Whatever follows a system prompt that is not known to its end is not known.
        if end.is_some() || system.is_empty() {
            let follows = |end: Boundary| Boundary {
                hash: after(base, end.hash),
                text_bytes: system_bytes.saturating_add(end.text_bytes),
            };
            turns.blocks.all().iter().for_each(|hash| prefix.blocks.push(after(base, *hash)));
            prefix.system = turns.system.map(follows).or(end);
            prefix.first_turn = turns.first_turn.map(follows);
        }
        prefix
    }

    /// One hash for each whole block, in the prompt's order.
    pub fn blocks(&self) -> &[u64] {
        self.blocks.all()
    }

    /// The bytes of text up to the end of that block (counted from 0).
    pub fn bytes_through(&self, block: usize) -> u32 {
        let (before, index) = match block.checked_sub(self.system_blocks) {
            None => (0, block),
            Some(index) => (self.system_bytes, index),
        };
        before.saturating_add((index as u32 + 1).saturating_mul(BLOCK_BYTES))
    }
}

impl PartialEq for Prefix {
    fn eq(&self, other: &Self) -> bool {
        self.blocks() == other.blocks()
            && (self.system_blocks, self.system_bytes) == (other.system_blocks, other.system_bytes)
            && (self.system, self.first_turn) == (other.system, other.first_turn)
    }
}
