//! What a request is, as far as its body tells: which model, how long a prompt, how long an answer,
//! whose session, and what the prompt has in common with others. Read in one pass while the body
//! arrives; docs/request-profile.md says what is read of each API.

mod classes;
mod estimate;
mod fields;
mod gather;
mod joined;
mod number;
mod prefix;
mod scanner;
mod section;
mod shapes;
mod sixteen;
mod stack;
mod strings;
mod words;

pub use classes::ClassCounts;
pub use estimate::{estimate_tokens, Coefficients, DEFAULT_COEFFICIENTS};
pub use fields::{name_hash, MAX_MODEL_BYTES};
pub(crate) use prefix::after;
pub use prefix::{Boundary, Prefix, BLOCK_BYTES, MAX_BLOCKS};
pub use scanner::Scanner;
pub use shapes::Api;
pub use stack::MAX_DEPTH;
pub(crate) use strings::{Piece, StringReader};

/// How far the body could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// One JSON object, to its end.
    Complete,
    /// A JSON object so far.
    Partial,
    /// It does not begin as a JSON object, as an uploaded file does not.
    NotJson,
    /// It began as one. What came before the fault is known.
    Malformed(Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Syntax,
    NotUtf8,
    /// More than MAX_DEPTH objects and arrays in each other.
    TooDeep,
}

/// What is known of a request. Of members of the request that come twice the last one counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub body: Body,
    /// None also if it is empty or longer than MAX_MODEL_BYTES.
    pub model: Option<String>,
    pub stream: Option<bool>,
    /// The most tokens that the answer may have.
    pub max_tokens: Option<u32>,
    /// How many answers are asked for.
    pub choices: Option<u32>,
    /// The hash of the user's name; of OpenAI's two names for it safety_identifier wins.
    pub user: Option<u64>,
    /// The hash of prompt_cache_key.
    pub cache_key: Option<u64>,
    /// The text of the system prompt and the messages.
    pub text: ClassCounts,
    /// The tools as JSON without blanks.
    pub tools: ClassCounts,
    /// Of prompts that are sent as token ids, which are no text.
    pub token_ids: u32,
    /// Messages, or prompts where those are texts; a system prompt of its own is none.
    pub messages: u32,
    pub images: u32,
    pub audios: u32,
    /// What was read ends within an image, a sound or a file.
    pub ends_in_medium: bool,
    pub prefix: Prefix,
}
