//! How many tokens a text is, from its classes of characters.

use super::classes::ClassCounts;

/// Tokens per byte of each class: a model's own, or the defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    pub letters: f32,
    pub digits: f32,
    pub punctuation: f32,
    pub blank: f32,
    pub cjk: f32,
    pub other: f32,
}

/// Fitted by tests/benchmark/token_estimate.py to English, Chinese, seven European languages, source
/// code and JSON in the tokenizer of Mistral's newer models (Tekken, 131,072 tokens);
/// docs/request-profile.md has the errors. Blanks go into the tokens of the words behind them.
pub const DEFAULT_COEFFICIENTS: Coefficients = Coefficients {
    letters: 0.279,
    digits: 0.807,
    punctuation: 0.711,
    blank: 0.0,
    cjk: 0.330,
    other: 0.178,
};

/// The estimated number of tokens.
pub fn estimate_tokens(counts: &ClassCounts, coefficients: &Coefficients) -> f32 {
    counts.letters as f32 * coefficients.letters
        + counts.digits as f32 * coefficients.digits
        + counts.punctuation as f32 * coefficients.punctuation
        + counts.blank as f32 * coefficients.blank
        + counts.cjk as f32 * coefficients.cjk
        + counts.other as f32 * coefficients.other
}
