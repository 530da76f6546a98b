//! What a request says of itself outside of its prompt.

use super::prefix::TextHash;
use super::words::Words;

/// Longer names are those of no model that is served: paths of files end below it.
pub const MAX_MODEL_BYTES: usize = 256;
/// The longest key or name that is known has 21.
const MAX_WORD_BYTES: usize = 24;

/// Each is the last one of its name, as in the parsers of the servers; None: absent, or not what
/// it must be.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub model: Option<String>,
    pub stream: Option<bool>,
    pub max_tokens: Option<u32>,
    pub max_completion_tokens: Option<u32>,
    pub choices: Option<u32>,
    pub user: Option<u64>,
    pub safety_identifier: Option<u64>,
    pub cache_key: Option<u64>,
}

/// A key, or a value of a few that are known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    bytes: [u8; MAX_WORD_BYTES],
    len: usize,
}

impl Word {
    pub fn push(&mut self, text: &[u8]) {
        let place = self.bytes.iter_mut().skip(self.len);
        place.zip(text).for_each(|(to, from)| *to = *from);
        self.len = self.len.saturating_add(text.len());
    }

    /// All of it; empty if it was too long for anything that is known.
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The name of a model, while it is read.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelName {
    bytes: Vec<u8>,
    too_long: bool,
}

impl ModelName {
    pub fn push(&mut self, text: &[u8]) {
        self.too_long |= self.bytes.len().saturating_add(text.len()) > MAX_MODEL_BYTES;
        if !self.too_long {
            self.bytes.extend_from_slice(text);
        }
    }

    /// The name; None if it is too long. The servers take an empty one for none.
    pub fn take(&mut self) -> Option<String> {
        let name = std::mem::take(self);
        let known = !name.too_long && !name.bytes.is_empty();
        known.then(|| String::from_utf8(name.bytes).ok()).flatten()
    }
}

/// What names a user or a session, while it is read. Only its hash is kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionName {
    hash: TextHash,
    is_named: bool,
}

impl SessionName {
    pub fn push(&mut self, text: &[u8]) {
        self.is_named |= !text.is_empty();
        self.hash.add(&Words::of(text), None);
    }

    /// None if it is empty.
    pub fn hash(&self) -> Option<u64> {
        self.is_named.then(|| self.hash.value())
    }
}

/// The hash of a name that does not come from the body, of a user or a model: the same as the
/// profile's. None if it is empty.
pub fn name_hash(name: &[u8]) -> Option<u64> {
    let mut session = SessionName::default();
    session.push(name);
    session.hash()
}
