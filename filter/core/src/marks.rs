//! The places in a prompt by which its beginning is known again: the ends of its blocks, of the
//! system prompt and of the first turn. Kept by an open request, for the prefix index.

use crate::profile::{after, name_hash, Boundary, Coefficients, Profile, BLOCK_BYTES};
use crate::prompt::{text_tokens, tools_tokens};

/// One place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Of the model and all of the prompt before the place.
    pub hash: u64,
    /// The prompt's tokens before the place, the tools' included.
    pub tokens: u32,
}

/// The marks of one prompt for one model; 16 bytes each, at most 82.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    marks: Vec<Mark>,
    prefix_key: Option<u64>,
    session_tokens: Option<u32>,
}

impl Marks {
    /// The model is the one whose cache it is: what has another name has another cache.
    pub fn new(profile: &Profile, model: &[u8], coefficients: &Coefficients) -> Marks {
        let prefix = &profile.prefix;
        let model = name_hash(model).unwrap_or_default();
        let tools = tools_tokens(profile, coefficients);
        let per_byte = text_tokens(profile, coefficients) / (prefix.text_bytes.max(1) as f32);
        let tokens = |bytes: u32| (tools + per_byte * bytes as f32) as u32;
        let mark =
            |end: &Boundary| Mark { hash: after(model, end.hash), tokens: tokens(end.text_bytes) };
        let ends = [prefix.system, prefix.first_turn];
        let mut marks = Vec::with_capacity(prefix.blocks.len() + ends.len());
        marks.extend(prefix.blocks.iter().map(mark));
        for end in ends.iter().flatten().map(mark) {
            let place = marks.partition_point(|before: &Mark| before.tokens <= end.tokens);
            marks.insert(place, end);
        }
        let system = prefix.system.filter(|end| end.text_bytes >= BLOCK_BYTES);
        let first = system.or(prefix.blocks.first().copied()).or(prefix.first_turn);
        let system_bytes = prefix.system.map_or(0, |end| end.text_bytes);
        let own_from = system_bytes.saturating_add(BLOCK_BYTES);
        let own = prefix.first_turn.map_or(own_from, |end| own_from.min(end.text_bytes));
        Marks {
            prefix_key: first.map(|end| mark(&end).hash),
            session_tokens: (!marks.is_empty()).then(|| tokens(own)),
            marks,
        }
    }

    /// In the prompt's order.
    pub fn all(&self) -> &[Mark] {
        &self.marks
    }

    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// What prompts with this beginning have in common, to place the first of them by: the system
    /// prompt if that is a block or more, else the first block, else the first turn.
    pub fn prefix_key(&self) -> Option<u64> {
        self.prefix_key
    }

    /// Is a beginning of so many tokens the session's own: its first turn, or a block more than
    /// the system prompt, which others have too?
    pub fn is_of_session(&self, tokens: u32) -> bool {
        self.session_tokens.is_some_and(|least| tokens >= least)
    }
}
