//! What a request weighs on its node, as far as it was expected when the node was picked.

/// The same from the request's opening to its end, so that sums of it come back to zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Of the prompt, without what the node's cache holds: to be computed before the first token.
    pub prompt_tokens: u32,
    /// Of the KV cache at the request's end: the prompt and the expected answer.
    pub kv_tokens: u32,
}
