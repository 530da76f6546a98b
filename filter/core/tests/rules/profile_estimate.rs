//! Token counts are estimated from the classes of characters, without a tokenizer.

use isocost_core::profile::{estimate_tokens, ClassCounts, Coefficients, DEFAULT_COEFFICIENTS};

/// Texts, and how many tokens a real tokenizer makes of them (texts/README.md).
const TEXTS: [(&str, &str, f32); 4] = [
    ("English", include_str!("../texts/english.txt"), 770.0),
    ("Chinese", include_str!("../texts/chinese.txt"), 630.0),
    ("code", include_str!("../texts/code.txt"), 949.0),
    ("JSON", include_str!("../texts/json.txt"), 1349.0),
];

#[test]
fn the_estimate_is_near_a_real_tokenizer_s_count() {
    let mut sum = 0.0;
    for (kind, text, tokens) in TEXTS {
        let mut counts = ClassCounts::default();
        counts.add(text.as_bytes());
        let error = estimate_tokens(&counts, &DEFAULT_COEFFICIENTS) / tokens - 1.0;
        assert!(error.abs() < 0.2, "{kind}: {error}");
        sum += error.abs();
    }
    assert!(sum / (TEXTS.len() as f32) < 0.15, "{sum}");
}

#[test]
fn each_class_has_its_own_coefficient() {
    let coefficients = Coefficients {
        letters: 1.0,
        digits: 10.0,
        punctuation: 100.0,
        blank: 1_000.0,
        cjk: 10_000.0,
        other: 100_000.0,
    };
    let mut counts = ClassCounts::default();
    assert_eq!(estimate_tokens(&counts, &coefficients), 0.0);
    counts.add("abc12!\n\t中é".as_bytes());
    assert_eq!(estimate_tokens(&counts, &coefficients), 232_123.0);
}
