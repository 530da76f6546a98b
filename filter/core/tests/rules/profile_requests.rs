//! Requests as clients send them, for the property tests of the profile.

use isocost_core::profile::Api;
use proptest::prelude::*;
use serde_json::{json, Map, Value};

/// A request, and a body that means it: blanks, escapes and the order of names are arbitrary.
#[derive(Clone, Debug)]
pub struct Request {
    pub api: Api,
    pub body: String,
    pub value: Value,
}

pub fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{0,24}",
        1 => "[\u{0}-\u{ff}]{0,6}",
        1 => "[\u{4e00}-\u{9fff}\u{ff01}-\u{ff20}]{0,12}",
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<Option<bool>>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"é]{0,5}", inner, 0..3)
                .prop_map(|members| Value::from(Map::from_iter(members))),
        ]
    })
}

fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => text().prop_map(|url| json!({"type": "image_url", "image_url": {"url": url}})),
        1 => text().prop_map(|data| json!({"type": "image", "source": {"data": data}})),
        1 => text().prop_map(|data| json!({"type": "input_audio", "input_audio": {"data": data}})),
        1 => any_json().prop_map(|input| json!({"type": "tool_use", "name": "f", "input": input})),
        1 => text().prop_map(|text| json!({"type": "tool_result", "content": text})),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => text().prop_map(Value::from),
        2 => prop::collection::vec(part(), 0..4).prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

fn messages() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(vec!["system", "user", "assistant", "tool", "x"]);
    let message =
        (role, content(), prop::option::of(any_json())).prop_map(|(role, content, call)| {
            let mut message =
                json!({"role": role, "content": content, "ignored": [content.clone()]});
            if let Some(call) = call {
                message["tool_calls"] = json!([call]);
            }
            message
        });
    prop::collection::vec(message, 0..4).prop_map(Value::from)
}

fn prompt() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        prop::collection::vec(text(), 0..4).prop_map(Value::from),
        prop::collection::vec(any::<u16>(), 0..9).prop_map(Value::from),
    ]
}

/// Whether a name is escaped, an ASCII character is escaped, and so on: a stream of choices.
struct Writer {
    choices: u64,
    out: String,
}

impl Writer {
    fn choose(&mut self, among: u64) -> u64 {
        self.choices = self.choices.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.choices >> 33) % among
    }

    fn blank(&mut self) {
        let blanks = ["", "", "", " ", "\n  ", "\t\r"];
        let choice = self.choose(blanks.len() as u64);
        self.out += blanks[choice as usize];
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let plain = character >= ' ' && !matches!(character, '"' | '\\');
            if plain && self.choose(12) > 0 {
                self.out.push(character);
            } else if matches!(character, '"' | '\\' | '/') && self.choose(2) == 0 {
                self.out.extend(['\\', character]);
            } else if character == '\n' {
                self.out += "\\n";
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    self.out += &format!("\\u{unit:04x}");
                }
            }
        }
        self.out.push('"');
    }

    fn value(&mut self, value: &Value) {
        self.blank();
        match value {
            Value::String(text) => self.string(text),
            Value::Array(elements) => {
                self.out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.value(element);
                }
                self.blank();
                self.out.push(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                let first = self.choose(members.len().max(1) as u64) as usize;
                members.rotate_left(first);
                self.out.push('{');
                for (index, (name, member)) in members.into_iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.blank();
                    self.string(name);
                    self.blank();
                    self.out.push(':');
                    self.value(member);
                }
                self.blank();
                self.out.push('}');
            }
            other => self.out += &other.to_string(),
        }
        self.blank();
    }
}

pub fn request() -> impl Strategy<Value = Request> {
    let scalars = (
        prop::option::of(text()),
        prop::option::of(any::<bool>()),
        prop::option::of(any::<u32>()),
        prop::option::of(any::<u32>()),
        prop::option::of(text()),
    );
    let prompts = (messages(), content(), prompt(), prop::option::of(any_json()));
    let api = prop::sample::select(vec![
        Api::ChatCompletions,
        Api::Completions,
        Api::Responses,
        Api::Embeddings,
        Api::Messages,
        Api::Other,
    ]);
    (api, scalars, prompts, any::<u64>()).prop_map(|(api, scalars, prompts, choices)| {
        let (model, stream, old_limit, new_limit, user) = scalars;
        let (messages, system, prompt, tools) = prompts;
        let mut value = json!({"temperature": 0.5, "stop": ["\u{4e2d}"], "extra": {"model": "x"}});
        let mut set = |name: &str, member: Option<Value>| {
            if let Some(member) = member {
                value[name] = member;
            }
        };
        set("model", model.map(Value::from));
        set("stream", stream.map(Value::from));
        set("max_tokens", old_limit.map(Value::from));
        set("max_completion_tokens", new_limit.map(Value::from));
        set("max_output_tokens", new_limit.map(Value::from));
        set("user", user.map(Value::from));
        set("messages", Some(messages.clone()));
        set("system", Some(system.clone()));
        set("instructions", Some(system));
        set("prompt", Some(prompt.clone()));
        let items = if choices % 2 == 0 { messages } else { Value::from("input text") };
        set("input", Some(if api == Api::Responses { items } else { prompt }));
        set("tools", tools.map(|tool| Value::from(vec![tool])));
        let mut writer = Writer { choices, out: String::new() };
        writer.value(&value);
        Request { api, body: writer.out, value }
    })
}
