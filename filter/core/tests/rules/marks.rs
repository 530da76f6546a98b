//! The places by which the beginning of a prompt is known again.

use isocost_core::marks::{Mark, Marks};
use isocost_core::profile::{Api, Coefficients, Profile, DEFAULT_COEFFICIENTS};
use isocost_core::prompt::prompt_tokens;

use crate::profile_shapes::profile;

pub fn chat(messages: &[(&str, &str)]) -> Profile {
    let messages: Vec<String> = messages
        .iter()
        .map(|(role, text)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        .collect();
    let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
    profile(Api::ChatCompletions, body.as_bytes())
}

/// A token for each letter, none for anything else.
const LETTERS: Coefficients =
    Coefficients { letters: 1.0, digits: 0.0, punctuation: 0.0, blank: 0.0, cjk: 0.0, other: 0.0 };

pub fn marks(profile: &Profile) -> Marks {
    Marks::new(profile, b"m", &DEFAULT_COEFFICIENTS)
}

fn common(one: &Marks, other: &Marks) -> usize {
    one.all().iter().filter(|mark| other.all().iter().any(|known| known.hash == mark.hash)).count()
}

#[test]
fn marks_are_the_blocks_and_both_boundaries_in_order() {
    let (system, user) = ("s".repeat(1500), "u".repeat(3000));
    let profile = chat(&[("system", &system), ("user", &user), ("assistant", "ok")]);
    let marks = Marks::new(&profile, b"m", &LETTERS);
    let tokens: Vec<u32> = marks.all().iter().map(|mark| mark.tokens).collect();
    // 12 tokens of three messages are spread over 4,505 bytes of hashed text.
    let through = |bytes: f32| (bytes * 4514.0 / 4505.0) as u32;
    let ends = [1024.0, 1501.0, 2048.0, 3072.0, 4096.0, 4502.0];
    assert_eq!(tokens, ends.map(through));
}

#[test]
fn what_stands_before_a_mark_counts_the_tools() {
    let user = "u".repeat(2048);
    let body = format!(
        r#"{{"tools":["{}"],"messages":[{{"role":"user","content":"{user}"}}]}}"#,
        "t".repeat(500)
    );
    let profile = profile(Api::ChatCompletions, body.as_bytes());
    let marks = Marks::new(&profile, b"m", &LETTERS);
    let tokens: Vec<u32> = marks.all().iter().map(|mark| mark.tokens).collect();
    // 2,052 tokens over 2,049 bytes of hashed text.
    assert_eq!(tokens, [500 + 1025, 500 + 2050, 500 + 2052]);
    assert_eq!(prompt_tokens(Some(&profile), &LETTERS, body.len() as u64, None), 2552);
}

#[test]
fn prompts_for_different_models_have_nothing_in_common() {
    let profile = chat(&[("system", &"s".repeat(3000)), ("user", "u")]);
    let of = |model: &[u8]| Marks::new(&profile, model, &DEFAULT_COEFFICIENTS);
    assert_eq!(common(&of(b"one"), &of(b"one")), 4);
    assert_eq!(common(&of(b"one"), &of(b"other")), 0);
    assert_eq!(common(&of(b"one"), &of(b"")), 0);
    assert_ne!(of(b"one").prefix_key(), of(b"other").prefix_key());
}

#[test]
fn the_next_turn_has_all_marks_of_the_one_before() {
    let turns = [("system", "s"), ("user", "first"), ("assistant", "a"), ("user", "second")];
    let (short, long) = (marks(&chat(&turns[..2])), marks(&chat(&turns)));
    assert_eq!((short.all().len(), common(&short, &long)), (2, 2));
}

#[test]
fn a_first_placement_goes_by_the_longest_beginning_that_others_share() {
    let (long, block) = ("s".repeat(1024), "u".repeat(1024));
    let key = |messages: &[(&str, &str)]| marks(&chat(messages)).prefix_key();
    // A long system prompt, whatever follows.
    assert_eq!(key(&[("system", &long), ("user", "a")]), key(&[("system", &long), ("user", "b")]));
    assert_ne!(key(&[("system", &long), ("user", "a")]), key(&[("system", &block), ("user", "a")]));
    // Else the first block.
    let one = format!("{block}one");
    let other = format!("{block}other");
    assert_eq!(key(&[("system", "s"), ("user", &one)]), key(&[("system", "s"), ("user", &other)]));
    assert_ne!(key(&[("system", "s"), ("user", &one)]), key(&[("system", "t"), ("user", &one)]));
    // Else the first turn.
    let turns = [("user", "a"), ("assistant", "b"), ("user", "c")];
    assert!(key(&turns).is_some());
    assert_eq!(key(&turns), key(&turns[..1]));
    assert_ne!(key(&turns), key(&[("user", "b")]));
    assert_eq!(key(&[]), None);
    assert!(marks(&chat(&[])).is_empty());
}

#[test]
fn a_session_begins_behind_the_system_prompt() {
    let system = "s".repeat(5000);
    let user = "u".repeat(2000);
    let of_session = |messages: &[(&str, &str)]| -> Vec<bool> {
        let marks = marks(&chat(messages));
        marks.all().iter().map(|mark: &Mark| marks.is_of_session(mark.tokens)).collect()
    };
    // Four blocks, the system prompt, the first turn.
    let expected = [false, false, false, false, false, true];
    assert_eq!(of_session(&[("system", &system), ("user", "hi")]), expected);
    // Blocks at 5,120 and 6,144 bytes: the second is a block further than the system prompt.
    let expected = [false, false, false, false, false, false, true, true];
    assert_eq!(of_session(&[("system", &system), ("user", &user)]), expected);
    assert_eq!(of_session(&[("user", "hi")]), [true]);
    assert!(!marks(&chat(&[])).is_of_session(0));
}
