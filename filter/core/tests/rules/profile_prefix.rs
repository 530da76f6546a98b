//! What two prompts have in common is what their hash chains have in common.

use isocost_core::profile::{Api, Prefix, BLOCK_BYTES, MAX_BLOCKS};
use proptest::prelude::*;

use crate::fixtures::property;
use crate::profile_shapes::profile;

const BLOCK: usize = BLOCK_BYTES as usize;

fn chat(messages: &[(&str, &str)]) -> Prefix {
    let messages: Vec<String> = messages
        .iter()
        .map(|(role, text)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        .collect();
    let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
    profile(Api::ChatCompletions, body.as_bytes()).prefix
}

fn read(api: Api, body: &str) -> Prefix {
    profile(api, body.as_bytes()).prefix
}

fn common(one: &Prefix, other: &Prefix) -> usize {
    one.blocks.iter().zip(&other.blocks).take_while(|(one, other)| one == other).count()
}

fn ends(prefix: &Prefix) -> Vec<u32> {
    prefix.blocks.iter().map(|block| block.text_bytes).collect()
}

/// The ends of a section's blocks: every KiB to 16, every 4 to 64, every 16 to 256.
fn schedule() -> Vec<u32> {
    let kib = (1..=16).chain((20..=64).step_by(4)).chain((80..=256).step_by(16));
    kib.map(|kib| kib * 1024).collect()
}

#[test]
fn a_conversation_that_goes_on_keeps_its_blocks() {
    let system = "s".repeat(3 * BLOCK);
    let first = [("system", system.as_str()), ("user", "Hello")];
    let answer = "a".repeat(BLOCK);
    let then = [first.as_slice(), &[("assistant", answer.as_str()), ("user", "more")]].concat();
    let (short, long) = (chat(&first), chat(&then));
    assert_eq!(short.blocks.len(), 3);
    assert_eq!(common(&short, &long), 3);
    assert_eq!(long.blocks.len(), 4);
    assert_eq!((short.system, short.first_turn), (long.system, long.first_turn));
    let system = short.system.unwrap();
    assert_eq!(system.text_bytes as usize, 3 * BLOCK + 1);
    assert_eq!(short.first_turn.unwrap().text_bytes, system.text_bytes + 6);
}

#[test]
fn text_that_is_equal_in_the_middle_only_is_not_common() {
    let (block, other) = ("a".repeat(BLOCK), "b".repeat(BLOCK));
    let whole = chat(&[("user", &format!("{block}{other}"))]);
    let middle = chat(&[("user", &other)]);
    assert_eq!(common(&whole, &middle), 0);
    assert!(whole.blocks.iter().all(|block| block.hash != middle.blocks[0].hash));
}

#[test]
fn who_speaks_matters_and_so_do_the_tools_and_pictures() {
    let text = "a".repeat(BLOCK);
    let chains = [
        chat(&[("user", "x"), ("user", &text)]),
        chat(&[("assistant", "x"), ("user", &text)]),
        chat(&[("system", "x"), ("user", &text)]),
        chat(&[("user", "xa"), ("user", &text)]),
        read(
            Api::ChatCompletions,
            &format!(
                r#"{{"tools":[1],"messages":[{{"role":"user","content":"x"}},
                {{"role":"user","content":"{text}"}}]}}"#
            ),
        ),
        read(
            Api::ChatCompletions,
            &format!(
                r#"{{"messages":[{{"role":"user","content":[{{"image_url":"a"}},"x"]}},
                {{"role":"user","content":"{text}"}}]}}"#
            ),
        ),
        read(
            Api::ChatCompletions,
            &format!(
                r#"{{"messages":[{{"role":"user","content":[{{"image_url":"b"}},"x"]}},
                {{"role":"user","content":"{text}"}}]}}"#
            ),
        ),
    ];
    for (index, one) in chains.iter().enumerate() {
        assert_eq!(one.blocks.len(), 1);
        for other in &chains[..index] {
            assert_eq!(common(one, other), 0);
        }
    }
}

#[test]
fn the_order_in_the_body_does_not_matter() {
    let (system, user) = ("s".repeat(BLOCK + 9), "u".repeat(2 * BLOCK));
    let members = [
        r#""tools":[{"name":"f"}]"#.to_owned(),
        format!(r#""system":"{system}""#),
        format!(r#""messages":[{{"role":"user","content":"{user}"}}]"#),
        r#""model":"m""#.to_owned(),
    ];
    let expected = read(Api::Messages, &format!("{{{}}}", members.join(",")));
    assert_eq!(expected.blocks.len(), 3);
    let reversed: Vec<String> = members.iter().rev().cloned().collect();
    assert_eq!(read(Api::Messages, &format!("{{{}}}", reversed.join(", "))), expected);
    let block_ends = ends(&expected);
    let turns = BLOCK_BYTES + 10;
    assert_eq!(block_ends, [BLOCK_BYTES, turns + BLOCK_BYTES, turns + 2 * BLOCK_BYTES]);

    let role_last = r#"{"messages":[{"content":"a","role":"user"}]}"#;
    assert_eq!(read(Api::ChatCompletions, role_last), chat(&[("user", "a")]));
}

#[test]
fn a_system_prompt_is_common_whatever_follows() {
    let body =
        |user: &str| format!(r#"{{"instructions":"{}","input":"{user}"}}"#, "s".repeat(2 * BLOCK));
    let (one, other) = (read(Api::Responses, &body("a")), read(Api::Responses, &body("b")));
    assert_eq!(common(&one, &other), 2);
    assert_eq!(one.system, other.system);
    assert_ne!(one.first_turn, other.first_turn);
}

#[test]
fn messages_behind_different_system_prompts_are_not_common() {
    let body = |system: &str| {
        let user = "u".repeat(BLOCK);
        format!(r#"{{"system":"{system}","messages":[{{"role":"user","content":"{user}"}}]}}"#)
    };
    let (one, other) = (read(Api::Messages, &body("a")), read(Api::Messages, &body("b")));
    assert_eq!((one.blocks.len(), common(&one, &other)), (1, 0));
}

#[test]
fn the_system_prompt_ends_at_the_first_other_message() {
    let prompts = [("system", "a"), ("developer", "b"), ("user", "c"), ("system", "d")];
    let system = chat(&prompts[..2]).system;
    assert_eq!(system.unwrap().text_bytes, 4);
    assert_eq!(chat(&prompts).system, system);
    assert_eq!(chat(&[("user", "a"), ("system", "b")]).system, None);
    let turns = [("assistant", "a"), ("user", "b"), ("user", "c")];
    assert_eq!(chat(&turns).first_turn, chat(&turns[..2]).first_turn);
}

#[test]
fn behind_a_system_prompt_that_is_cut_nothing_is_known() {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{}"}}],"system":"{}"#,
        "u".repeat(BLOCK),
        "s".repeat(BLOCK)
    );
    let prefix = read(Api::Messages, &body);
    assert_eq!(prefix.blocks.len(), 1);
    assert_eq!((prefix.system, prefix.first_turn), (None, None));
}

#[test]
fn blocks_grow_with_the_prompt_and_end_at_256_kib() {
    let schedule = schedule();
    assert_eq!(schedule.len(), MAX_BLOCKS);
    let long = chat(&[("system", &"s".repeat(BLOCK * 70)), ("user", &"u".repeat(BLOCK * 230))]);
    assert_eq!(ends(&long), schedule);
    assert_eq!(long.text_bytes as usize, BLOCK * 300 + 2);
    for bytes in [BLOCK * 16 + 1, BLOCK * 20 - 3, BLOCK * 63, BLOCK * 64, BLOCK * 79, BLOCK * 200] {
        let expected = schedule.iter().filter(|end| **end as usize <= bytes);
        assert!(ends(&chat(&[("user", &"u".repeat(bytes))])).iter().eq(expected), "{bytes}");
    }
}

#[test]
fn a_system_prompt_of_its_own_and_the_messages_have_their_own_blocks() {
    let body = format!(
        r#"{{"system":"{}","messages":[{{"role":"user","content":"{}"}}]}}"#,
        "s".repeat(BLOCK * 18),
        "u".repeat(BLOCK * 30)
    );
    let prefix = read(Api::Messages, &body);
    let system_bytes = prefix.system.unwrap().text_bytes;
    let schedule = schedule();
    let turns = schedule[..19].iter().map(|end| system_bytes + end);
    assert!(ends(&prefix).into_iter().eq(schedule[..16].iter().copied().chain(turns)));
}

/// Pairs that differ in single bits a word apart: what a weaker hash takes for equal.
#[test]
fn differences_do_not_cancel_each_other() {
    let mut seen = std::collections::HashSet::new();
    for first in 0..16u8 {
        for second in 0..16u8 {
            let text = format!(
                "{}{}{}{}{}",
                "x".repeat(7),
                char::from(b'A' + first),
                char::from(b'A' + second),
                "x".repeat(6),
                "y".repeat(BLOCK)
            );
            assert!(seen.insert(chat(&[("user", &text)]).blocks[0].hash));
        }
    }
}

proptest! {
    #![proptest_config(property(1))]

    #[test]
    fn blocks_are_common_up_to_the_first_difference(
        len in 1usize..70 * BLOCK,
        place in 0usize..70 * BLOCK,
    ) {
        let text = "abcdefghijklmnop".repeat(len / 16 + 1)[..len].to_owned();
        let mut changed = text.clone();
        let place = place % len;
        changed.replace_range(place..place + 1, "X");
        let (one, other) = (chat(&[("user", &text)]), chat(&[("user", &changed)]));
        let before = ends(&one).iter().filter(|end| **end as usize <= place).count();
        prop_assert_eq!(common(&one, &other), before);
        prop_assert_ne!(one.first_turn, other.first_turn);
    }
}
