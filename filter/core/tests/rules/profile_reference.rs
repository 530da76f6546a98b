//! Against a parser that builds the whole document: the same is read of generated requests.

use isocost_core::profile::{Api, ClassCounts};
use proptest::prelude::*;
use serde_json::Value;

use crate::fixtures::property;
use crate::profile_requests::{request, text, Request};
use crate::profile_shapes::profile;

#[derive(Debug, Default, PartialEq)]
struct Prompt {
    text: ClassCounts,
    tools: ClassCounts,
    token_ids: u32,
    messages: u32,
    images: u32,
    audios: u32,
}

impl Prompt {
    fn add(&mut self, text: &str) {
        self.text = self.text.plus(&plain_counts(text));
    }

    fn content(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.add(text),
            Value::Array(parts) => parts.iter().for_each(|part| self.part(part)),
            _ => {}
        }
    }

    fn part(&mut self, part: &Value) {
        match part["type"].as_str() {
            Some("image_url" | "image") => self.images += 1,
            Some("input_audio") => self.audios += 1,
            _ => {}
        }
        for name in ["text", "name"] {
            part[name].as_str().into_iter().for_each(|text| self.add(text));
        }
        self.content(&part["content"]);
        if let Some(input) = part.get("input") {
            self.text = self.text.plus(&verbatim(input, false));
        }
    }

    fn messages(&mut self, messages: &Value) {
        for message in messages.as_array().into_iter().flatten() {
            self.messages += 1;
            self.content(&message["content"]);
            if let Some(calls) = message.get("tool_calls") {
                self.text = self.text.plus(&verbatim(calls, false));
            }
        }
    }

    fn prompt(&mut self, prompt: &Value) {
        match prompt {
            Value::String(text) => {
                self.messages += 1;
                self.add(text);
            }
            Value::Array(prompts) => prompts.iter().for_each(|prompt| self.prompt(prompt)),
            Value::Number(_) => self.token_ids += 1,
            _ => {}
        }
    }

    fn read(api: Api, request: &Value) -> Prompt {
        let mut prompt = Prompt::default();
        match api {
            Api::ChatCompletions => prompt.messages(&request["messages"]),
            Api::Completions => prompt.prompt(&request["prompt"]),
            Api::Embeddings => prompt.prompt(&request["input"]),
            Api::Responses => {
                prompt.content(&request["instructions"]);
                match &request["input"] {
                    items @ Value::Array(_) => prompt.messages(items),
                    text => prompt.prompt(text),
                }
            }
            Api::Messages => {
                prompt.content(&request["system"]);
                prompt.messages(&request["messages"]);
            }
            Api::Other => {}
        }
        if matches!(api, Api::ChatCompletions | Api::Responses | Api::Messages) {
            prompt.tools =
                request.get("tools").map_or_else(Default::default, |tools| verbatim(tools, false));
        }
        prompt
    }
}

/// The counts of JSON as text without blanks: what strings mean, and syntax. The quotes of a
/// string count within verbatim JSON only.
fn verbatim(value: &Value, within: bool) -> ClassCounts {
    let quotes = if within { "\"\"" } else { "" };
    let mut counts = ClassCounts::default();
    let mut add = |more: ClassCounts| counts = counts.plus(&more);
    let commas = |len: usize| plain_counts(&",".repeat(len.saturating_sub(1)));
    match value {
        Value::String(text) => {
            add(plain_counts(text));
            add(plain_counts(quotes));
        }
        Value::Array(elements) => {
            add(plain_counts("[]"));
            add(commas(elements.len()));
            elements.iter().for_each(|element| add(verbatim(element, true)));
        }
        Value::Object(members) => {
            add(plain_counts("{}"));
            add(commas(members.len()));
            for (name, member) in members {
                add(plain_counts(name));
                add(plain_counts("\"\":"));
                add(verbatim(member, true));
            }
        }
        other => add(plain_counts(&other.to_string())),
    }
    counts
}

/// Counts one character after the other.
fn plain_counts(text: &str) -> ClassCounts {
    let mut counts = ClassCounts::default();
    for character in text.chars() {
        let class = match character {
            'a'..='z' | 'A'..='Z' => &mut counts.letters,
            '0'..='9' => &mut counts.digits,
            '\0'..=' ' => &mut counts.blank,
            '!'..='\x7f' => &mut counts.punctuation,
            '\u{3000}'..='\u{ffff}' => &mut counts.cjk,
            _ => &mut counts.other,
        };
        *class += character.len_utf8() as u32;
    }
    counts
}

proptest! {
    #![proptest_config(property(2))]

    #[test]
    fn the_same_is_read_as_by_a_parser(Request { api, body, value } in request()) {
        // What was written means the request.
        let parsed: Value = serde_json::from_str(&body).unwrap();
        prop_assert_eq!(&parsed, &value);

        let profile = profile(api, body.as_bytes());
        let prompt = Prompt {
            text: profile.text,
            tools: profile.tools,
            token_ids: profile.token_ids,
            messages: profile.messages,
            images: profile.images,
            audios: profile.audios,
        };
        prop_assert_eq!(prompt, Prompt::read(api, &value));

        let model = value["model"].as_str();
        let model = model.filter(|model| (1..=256).contains(&model.len()));
        prop_assert_eq!(profile.model.as_deref(), model);
        prop_assert_eq!(profile.stream, value["stream"].as_bool());
        let limits: &[&str] = match api {
            Api::ChatCompletions => &["max_completion_tokens", "max_tokens"],
            Api::Completions | Api::Messages => &["max_tokens"],
            Api::Responses => &["max_output_tokens"],
            Api::Embeddings | Api::Other => &[],
        };
        let limit = limits.iter().find_map(|name| value[name].as_u64());
        prop_assert_eq!(profile.max_tokens.map(u64::from), limit);
        let user = value["user"].as_str().filter(|user| !user.is_empty());
        prop_assert_eq!(profile.user.is_some(), user.is_some());
    }

    #[test]
    fn classes_are_counted_as_one_by_one(texts in prop::collection::vec(text(), 0..40)) {
        let text = texts.concat();
        let mut counts = ClassCounts::default();
        counts.add(text.as_bytes());
        prop_assert_eq!(counts, plain_counts(&text));
        prop_assert_eq!(counts.total() as usize, text.len());
    }
}
