//! What is seen of an answer while it passes is the same wherever it is cut.

use isocost_core::stream::{AnswerScanner, Finish};
use proptest::prelude::*;
use serde_json::json;

use crate::fixtures::property;

/// Output events, output tokens, and why it ended.
type Seen = (u64, Option<u64>, Option<Finish>);

fn scan<'a>(event_stream: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut scanner = AnswerScanner::new(event_stream);
    pieces.into_iter().for_each(|piece| scanner.feed(piece));
    (scanner.output_events(), scanner.output_tokens(), scanner.finish())
}

macro_rules! answers {
    ($($file:literal: $seen:expr,)*) => {
        [$(($file, include_bytes!(concat!("../streams/", $file)).as_slice(), $seen)),*]
    };
}

fn answers() -> [(&'static str, &'static [u8], Seen); 16] {
    use Finish::{Length, Other, Stop, Tool};
    answers! {
        "vllm_chat.sse": (4, Some(5), Some(Length)),
        "vllm_reasoning.sse": (3, Some(3), Some(Stop)),
        "vllm_completions.sse": (3, Some(3), Some(Stop)),
        "sglang_chat.sse": (2, Some(3), Some(Stop)),
        "openai_tools.sse": (2, Some(2), Some(Tool)),
        "spaced_chat.sse": (2, Some(2), Some(Other)),
        "anthropic.sse": (3, Some(15), Some(Tool)),
        "responses.sse": (2, Some(11), Some(Stop)),
        "responses_incomplete.sse": (2, Some(11), Some(Length)),
        "responses_tool.sse": (3, Some(6), Some(Tool)),
        "openai_chat.json": (0, Some(10), Some(Stop)),
        "vllm_completion.json": (0, Some(16), Some(Length)),
        "anthropic.json": (0, Some(15), Some(Length)),
        "responses.json": (0, Some(11), Some(Stop)),
        "responses_tool.json": (0, Some(11), Some(Tool)),
        "embeddings.json": (0, None, None),
    }
}

fn streamed(name: &str) -> bool {
    name.ends_with(".sse")
}

#[test]
fn output_usage_and_reason_are_found_in_every_api() {
    for (name, text, seen) in answers() {
        assert_eq!(scan(streamed(name), [text]), seen, "{name}");
    }
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    for (name, text, seen) in answers() {
        for cut in 0..=text.len() {
            let (begun, rest) = text.split_at(cut);
            assert_eq!(scan(streamed(name), [begun, rest]), seen, "{name} cut at {cut}");
        }
        assert_eq!(scan(streamed(name), text.chunks(1)), seen, "{name} byte by byte");
        let and_nothing = text.chunks(1).flat_map(|byte| [byte, &[]]);
        assert_eq!(scan(streamed(name), and_nothing), seen, "{name} with empty pieces");
    }
}

#[test]
fn lines_may_end_with_carriage_returns() {
    for (name, text, seen) in answers() {
        let text = String::from_utf8(text.to_vec()).unwrap().replace('\n', "\r\n");
        assert_eq!(scan(streamed(name), [text.as_bytes()]), seen, "{name}");
    }
}

/// The events of a stream.
fn events(text: &[u8]) -> Vec<&[u8]> {
    let ends = (2..=text.len()).filter(|end| text[..*end].ends_with(b"\n\n"));
    let mut from = 0;
    ends.map(|end| &text[std::mem::replace(&mut from, end)..end]).collect()
}

#[test]
fn the_first_token_is_not_the_role_nor_the_message_s_start() {
    for (name, before) in [
        ("vllm_chat.sse", 1),
        ("vllm_reasoning.sse", 1),
        ("vllm_completions.sse", 0),
        ("sglang_chat.sse", 1),
        ("openai_tools.sse", 1),
        ("spaced_chat.sse", 1),
        ("anthropic.sse", 3),
        ("responses.sse", 4),
        ("responses_tool.sse", 2),
    ] {
        let (_, text, _) = answers().into_iter().find(|(other, ..)| *other == name).unwrap();
        let events = events(text);
        assert_eq!(scan(true, events[..before].iter().copied()).0, 0, "{name}");
        assert_eq!(scan(true, events[..=before].iter().copied()).0, 1, "{name}");
    }
}

#[test]
fn a_stream_that_was_cut_has_the_events_that_came() {
    for (name, events_before, tokens) in
        [("vllm_chat.sse", 4, 3), ("anthropic.sse", 5, 3), ("responses.sse", 6, 2)]
    {
        let (_, text, _) = answers().into_iter().find(|(other, ..)| *other == name).unwrap();
        let seen = scan(true, events(text)[..events_before].iter().copied());
        assert_eq!((seen.1, seen.2), (Some(tokens), None), "{name}");
    }
}

#[test]
fn usage_in_every_event_is_not_added_to() {
    let event = |tokens: u32| {
        let choice = json!({"index": 0, "delta": {"content": "a"}, "finish_reason": null});
        format!(
            "data: {}\n\n",
            json!({"choices": [choice], "usage": {"completion_tokens": tokens}})
        )
    };
    let text = [2, 4, 6].map(event).concat();
    assert_eq!(scan(true, [text.as_bytes()]), (3, Some(6), None));
}

#[test]
fn an_answer_that_is_not_streamed_has_no_events() {
    let (_, text, _) = answers()[0];
    assert_eq!(scan(false, [text]).0, 0);
}

#[test]
fn comments_and_the_end_mark_are_no_output() {
    assert_eq!(scan(true, [b": ping\n\ndata: [DONE]\n\n".as_slice()]), (0, None, None));
}

#[test]
fn reasons_of_all_engines_are_known() {
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("eos_token", Finish::Stop),
        ("length", Finish::Length),
        ("model_length", Finish::Length),
        ("tool_calls", Finish::Tool),
        ("function_call", Finish::Tool),
        ("content_filter", Finish::Other),
        ("abort", Finish::Other),
    ] {
        let text = json!({"choices": [{"finish_reason": reason}]}).to_string();
        assert_eq!(scan(false, [text.as_bytes()]).2, Some(finish), "{reason}");
    }
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("tool_use", Finish::Tool),
        ("refusal", Finish::Other),
    ] {
        let text = json!({"stop_reason": reason}).to_string();
        assert_eq!(scan(false, [text.as_bytes()]).2, Some(finish), "{reason}");
    }
    for nothing in [r#"{"finish_reason":""}"#, r#"{"finish_reason":null}"#, r#"{"finish_reason"#] {
        assert_eq!(scan(false, [nothing.as_bytes()]).2, None, "{nothing}");
    }
}

/// Texts that an engine may generate, some of which try to pose as what is searched.
fn generated() -> impl Strategy<Value = String> {
    let evil = prop::sample::select(vec![
        "\"finish_reason\":null",
        "\"finish_reason\":\"length\"}",
        "\"completion_tokens\": 99,",
        "\"delta\":{}",
        "{\"delta\":{\"content\":\"\"}}",
        "\"type\":\"content_block_delta\"",
        "\"type\":\"response.output_text.delta\"",
        "\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n",
        "\"",
        "\\",
        "\\\"",
        "_",
        "{",
    ]);
    prop_oneof![
        2 => prop::collection::vec(evil, 1..3).prop_map(|parts| parts.concat()),
        1 => "\\PC{1,8}",
    ]
}

fn cut<'a>(text: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = text;
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, tail) = rest.split_at((*size).clamp(1, rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

proptest! {
    #![proptest_config(property(4))]

    #[test]
    fn generated_text_never_counts_as_anything_else(
        texts in prop::collection::vec(generated(), 1..8),
        sizes in prop::collection::vec(1usize..90, 1..20),
    ) {
        let event = |delta, finish: Option<&str>| {
            // serde_json sorts keys: finish_reason follows delta.
            let choice = json!({"delta": delta, "finish_reason": finish, "index": 0});
            format!("data: {}\n\n", json!({"choices": [choice], "id": "c"}))
        };
        let mut stream = event(json!({"role": "assistant", "content": ""}), None);
        texts.iter().for_each(|text| stream += &event(json!({"content": text}), None));
        stream += &event(json!({}), Some("stop"));
        let count = texts.len() as u64;
        let wanted = (count, Some(count), Some(Finish::Stop));
        prop_assert_eq!(scan(true, cut(stream.as_bytes(), &sizes)), wanted);

        let whole = json!({
            "choices": [{"finish_reason": "tool_calls", "message": {"content": texts.concat()}}],
            "usage": {"completion_tokens": 7},
        }).to_string();
        let wanted = (0, Some(7), Some(Finish::Tool));
        prop_assert_eq!(scan(false, cut(whole.as_bytes(), &sizes)), wanted);
    }

    #[test]
    fn any_bytes_give_the_same_in_any_chunking(
        parts in prop::collection::vec(prop_oneof![
            4 => prop::sample::select(vec![
                "\"finish_reason\"", "\"finish", "_", "reason\"", ":", "null", "\"stop\"", "\"stop_reason\"",
                "\"delta\":{", "{", "}", "\"content\":", "\"\"", "\"role\":\"x\"", ",", " ", "\n",
                "\"incomplete_details\":", "{\"reason\":\"max\"}", "\"type\":\"content_block_delta\"",
                "\"type\":\"response.output", "_text.delta\"", "\"output_tokens\":5", "\"logprobs\":null,",
            ]).prop_map(|part| part.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..50),
        ], 0..24),
        sizes in prop::collection::vec(1usize..60, 1..20),
        event_stream: bool,
    ) {
        let text = parts.concat();
        let wanted = scan(event_stream, [&text[..]]);
        prop_assert_eq!(scan(event_stream, cut(&text, &sizes)), wanted);
        prop_assert_eq!(scan(event_stream, text.chunks(1)), wanted);
    }
}
