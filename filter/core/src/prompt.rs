//! How many tokens a request's prompt is, from its profile and the body's length.

use crate::profile::{estimate_tokens, Body, Coefficients, Profile};

/// What chat templates put around a message: its role and two or three marks.
const MESSAGE_TOKENS: f32 = 4.0;
/// An image or audio. Its size is not read: this is a picture of 1024 x 1024 in OpenAI's and many
/// open models' count, or half a minute of speech at 25 tokens a second.
const MEDIUM_TOKENS: f32 = 765.0;
/// Of text that is not read: about what English has.
const BYTES_PER_TOKEN: f32 = 4.0;
/// An upload is no text: what its engine makes of it, as of half a minute of speech, is bounded.
const MAX_UPLOAD_TOKENS: f32 = 4096.0;

/// No prompt and no answer counts as longer: it is ten times what any model takes, and a request that
/// claims more than there can be must not make its node the last choice of all others.
pub const MAX_TOKENS: u32 = 10_000_000;

/// The tokens of the tools, as far as they were read.
pub(crate) fn tools_tokens(profile: &Profile, coefficients: &Coefficients) -> f32 {
    estimate_tokens(&profile.tools, coefficients)
}

/// The tokens of what follows the tools, as far as it was read.
pub(crate) fn text_tokens(profile: &Profile, coefficients: &Coefficients) -> f32 {
    estimate_tokens(&profile.text, coefficients)
        + profile.token_ids as f32
        + profile.messages as f32 * MESSAGE_TOKENS
        + profile.images.saturating_add(profile.audios) as f32 * MEDIUM_TOKENS
}

/// The tokens of the whole prompt: what the `body_read` bytes have that were read, and as much for
/// each byte behind them, of which as many are text as of those. Without a prompt that is known, by the body's length alone.
pub fn prompt_tokens(
    profile: Option<&Profile>,
    coefficients: &Coefficients,
    body_read: u64,
    content_length: Option<u64>,
) -> u32 {
    let read = body_read as f32;
    let whole = content_length.map_or(read, |length| read.max(length as f32));
    let by_length = whole / BYTES_PER_TOKEN;
    let known = |profile: &Profile| {
        let tokens = tools_tokens(profile, coefficients) + text_tokens(profile, coefficients);
        match profile.body {
            Body::NotJson => by_length.min(MAX_UPLOAD_TOKENS),
            _ if tokens <= 0.0 => by_length,
            Body::Complete => tokens,
            // What is behind it may be all of that medium, which counts already.
            _ if profile.ends_in_medium => tokens,
            _ => tokens * (whole / read.max(1.0)).max(1.0),
        }
    };
    // Also rounds what is not a number to 0.
    (profile.map_or(by_length, known).ceil() as u32).min(MAX_TOKENS)
}
