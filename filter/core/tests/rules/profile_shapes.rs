//! What is read of each API's requests.

use isocost_core::profile::{Api, Body, ClassCounts, Fault, Profile, Scanner, MAX_MODEL_BYTES};

pub fn profile(api: Api, body: &[u8]) -> Profile {
    let mut scanner = Scanner::new(api);
    scanner.feed(body);
    scanner.finish()
}

pub fn counts(texts: &[&str]) -> ClassCounts {
    let mut counts = ClassCounts::default();
    texts.iter().for_each(|text| counts.add(text.as_bytes()));
    counts
}

fn chat(body: &str) -> Profile {
    profile(Api::ChatCompletions, body.as_bytes())
}

/// What is known of a body without anything.
fn nothing() -> Profile {
    chat("{}")
}

#[test]
fn the_path_names_the_api() {
    for (path, api) in [
        ("/v1/chat/completions", Api::ChatCompletions),
        ("/openai/deployments/x/chat/completions?api-version=1", Api::ChatCompletions),
        ("/v1/completions", Api::Completions),
        ("/v1/completions/", Api::Completions),
        ("/v1/responses", Api::Responses),
        ("/v1/embeddings", Api::Embeddings),
        ("/v1/messages", Api::Messages),
        ("/v1/messages/count_tokens", Api::Other),
        ("/v1/audio/transcriptions", Api::Other),
        ("/v1/models?next=/v1/completions", Api::Other),
        ("/mycompletions", Api::Other),
        ("", Api::Other),
    ] {
        assert_eq!(Api::of_path(path.as_bytes()), api, "{path}");
    }
}

#[test]
fn a_chat_completion_is_read() {
    let profile = chat(
        r#"{"model": "m", "stream": true, "n": 2, "max_tokens": 5, "max_completion_tokens": 7,
        "user": "u", "temperature": 0.5, "response_format": {"type": "text"},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": [
                {"type": "text", "text": "What is"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"image_url": "https://example.org/a.png"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                " this?"]},
            {"role": "assistant", "content": null, "reasoning_content": "never counted",
             "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "12"}],
        "tools": [{"type": "function", "function": {"name": "f", "strict": true, "n": 1e2}}]}"#,
    );
    let call = r#"[{"id":"c1","function":{"name":"f","arguments":""}}]{"a":1}"#;
    assert_eq!(profile.text, counts(&["Be brief.", "ann", "What is", " this?", call, "12"]));
    let tools = r#"[{"type":"function","function":{"name":"f","strict":true,"n":1e2}}]"#;
    assert_eq!(profile.tools, counts(&[tools]));
    assert_eq!(profile.body, Body::Complete);
    assert_eq!(profile.model.as_deref(), Some("m"));
    assert_eq!((profile.stream, profile.choices), (Some(true), Some(2)));
    assert_eq!(profile.max_tokens, Some(7));
    assert_eq!((profile.messages, profile.images, profile.audios), (4, 2, 1));
    assert!(profile.user.is_some() && profile.cache_key.is_none());
    assert!(profile.prefix.system.is_some() && profile.prefix.first_turn.is_some());
}

#[test]
fn a_completion_is_read() {
    let read = |prompt: &str| {
        let body = format!(r#"{{"prompt":{prompt},"model":"m","max_tokens":9}}"#);
        profile(Api::Completions, body.as_bytes())
    };
    let one = read(r#""Once upon""#);
    assert_eq!((one.text, one.messages), (counts(&["Once upon"]), 1));
    assert_eq!(one.max_tokens, Some(9));
    assert!(one.prefix.first_turn.is_some() && one.prefix.system.is_none());
    let two = read(r#"["Once","upon"]"#);
    assert_eq!((two.text, two.messages), (counts(&["Once", "upon"]), 2));
    for (ids, count) in [("[1, 22, 333]", 3), ("[[1,2],[3]]", 3), ("[]", 0)] {
        let profile = read(ids);
        assert_eq!((profile.text, profile.token_ids), (counts(&[]), count), "{ids}");
        assert!(profile.prefix.first_turn.is_some());
    }
}

#[test]
fn a_response_request_is_read() {
    let body = r#"{"model":"m","instructions":"Be brief.","max_output_tokens":6,"max_tokens":5,
        "safety_identifier":"s","prompt_cache_key":"k","input":"Hi"}"#;
    let text = profile(Api::Responses, body.as_bytes());
    assert_eq!((text.text, text.messages), (counts(&["Be brief.", "Hi"]), 1));
    assert_eq!(text.max_tokens, Some(6));
    assert!(text.user.is_some() && text.cache_key.is_some());
    assert!(text.prefix.system.is_some() && text.prefix.first_turn.is_some());

    let body = r#"{"input":[
        {"type":"message","role":"user","content":[
            {"type":"input_text","text":"Look"},
            {"type":"input_image","image_url":"data:image/png;base64,AAAA"},
            {"type":"input_file","filename":"a.pdf","file_data":"AAAA"}]},
        {"type":"reasoning","summary":[],"encrypted_content":"AAAA"},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"42"}]}"#;
    let items = profile(Api::Responses, body.as_bytes());
    assert_eq!(items.text, counts(&["Look", "f", "{}", "42"]));
    assert_eq!((items.messages, items.images, items.audios), (4, 1, 0));
}

#[test]
fn an_embeddings_request_is_read() {
    let read = |body: &str| profile(Api::Embeddings, body.as_bytes());
    let texts = read(r#"{"input":["one","two"],"model":"m"}"#);
    assert_eq!((texts.text, texts.messages), (counts(&["one", "two"]), 2));
    assert_eq!(read(r#"{"input":"one"}"#).text, counts(&["one"]));
    assert_eq!(read(r#"{"input":[5,6]}"#).token_ids, 2);
}

#[test]
fn an_anthropic_message_is_read() {
    let body = r#"{"model":"m","max_tokens":100,"metadata":{"user_id":"u","n":1},
        "messages":[
            {"role":"user","content":[
                {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
                {"type":"text","text":"What?","cache_control":{"type":"ephemeral"}}]},
            {"role":"assistant","content":[
                {"type":"thinking","thinking":"never counted","signature":"AAAA"},
                {"type":"tool_use","id":"t","name":"f","input":{"a":[1,null]}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
                {"type":"text","text":"42"},
                {"type":"image","source":{"type":"url","url":"https://example.org"}}]}]}],
        "system":[{"type":"text","text":"Be"},{"type":"text","text":" brief."}],
        "tools":[{"name":"f","input_schema":{"type":"object"}}]}"#;
    let parts = profile(Api::Messages, body.as_bytes());
    assert_eq!(parts.text, counts(&["Be", " brief.", "What?", "f", r#"{"a":[1,null]}"#, "42"]));
    assert_eq!(parts.tools, counts(&[r#"[{"name":"f","input_schema":{"type":"object"}}]"#]));
    assert_eq!((parts.messages, parts.images), (3, 2));
    assert_eq!(parts.max_tokens, Some(100));
    assert!(parts.user.is_some());

    let text = profile(Api::Messages, br#"{"system":"Be brief.","messages":[]}"#);
    assert_eq!((text.text, text.messages), (counts(&["Be brief."]), 0));
    assert!(text.prefix.system.is_some());
}

#[test]
fn of_other_apis_the_model_is_read() {
    let body = br#"{"input":"text","model":"tts","messages":[{"role":"user","content":"a"}]}"#;
    let other = profile(Api::Other, body);
    assert_eq!(other, Profile { model: Some("tts".to_owned()), ..nothing() });
}

#[test]
fn the_model_is_found_behind_a_long_prompt() {
    let prompt = "word ".repeat(60_000);
    let messages = format!(r#"[{{"role":"user","content":"{prompt}"}}]"#);
    let last = chat(&format!(r#"{{"messages":{messages},"model":"m"}}"#));
    let first = chat(&format!(r#"{{"model":"m","messages":{messages}}}"#));
    assert_eq!(last.model.as_deref(), Some("m"));
    assert_eq!(last.text.total(), 300_000);
    assert_eq!(last, first);
}

#[test]
fn the_last_of_equal_names_wins() {
    let twice = chat(
        r#"{"model":"a","stream":true,"user":"a","max_tokens":1,
        "tools":["a"],"tools":["b"],
        "messages":[{"role":"user","content":"aaaa"}],"messages":[{"role":"user","content":"b"}],
        "model":"b","stream":false,"user":"b","max_tokens":2}"#,
    );
    let once = chat(
        r#"{"messages":[{"role":"user","content":"b"}],"model":"b","stream":false,"user":"b",
        "max_tokens":2,"tools":["b"]}"#,
    );
    assert_eq!(twice, once);
    let twice = r#"{"system":"a","system":"b","metadata":{"user_id":"u"},"metadata":{}}"#;
    let once = profile(Api::Messages, br#"{"system":"b","metadata":{}}"#);
    assert_eq!(profile(Api::Messages, twice.as_bytes()), once);
    let gone = chat(r#"{"model":"a","n":1,"stream":true,"model":5,"n":"x","stream":null}"#);
    assert_eq!(gone, nothing());
}

#[test]
fn names_written_with_escapes_are_the_same() {
    let model = "mist\u{e9}l/\u{1f600}";
    let profile = chat(r#"{"mod\u0065l":"m\u0069st\u00e9l\/\ud83D\ude00"}"#);
    assert_eq!(profile.model.as_deref(), Some(model));
}

#[test]
fn a_model_of_no_or_too_long_a_name_is_unknown() {
    assert_eq!(chat(r#"{"model":""}"#).model, None);
    let longest = "m".repeat(MAX_MODEL_BYTES);
    assert_eq!(chat(&format!(r#"{{"model":"{longest}"}}"#)).model, Some(longest.clone()));
    assert_eq!(chat(&format!(r#"{{"model":"{longest}m"}}"#)).model, None);
    assert_eq!(chat(&format!(r#"{{"model":"{longest}\u006d"}}"#)).model, None);
}

#[test]
fn users_differ_by_their_names_and_empty_names_are_none() {
    let user = |name: &str| chat(&format!(r#"{{"user":"{name}"}}"#)).user;
    assert_eq!(user(r"ann"), user(r"\u0061nn"));
    assert_ne!(user("ann"), user("bob"));
    assert_eq!(user(""), None);
    let newer = chat(r#"{"safety_identifier":"ann","user":"bob"}"#);
    assert_eq!(newer.user, user("ann"));
}

#[test]
fn token_limits_are_whole_numbers_that_fit() {
    for (number, value) in [
        ("0", Some(0)),
        ("100", Some(100)),
        ("1e3", Some(1000)),
        ("1.50E+2", Some(150)),
        ("5000e-3", Some(5)),
        ("7.0", Some(7)),
        ("4294967295", Some(u32::MAX)),
        ("0e999999999999", Some(0)),
        ("4294967296", None),
        ("99999999999999999999999999999999999999", None),
        ("1e400", None),
        ("1e-400", None),
        ("1.5", None),
        ("-1", None),
        ("null", None),
        ("true", None),
        ("\"5\"", None),
        ("[5]", None),
        ("{\"max_tokens\":5}", None),
    ] {
        let profile = chat(&format!(r#"{{"max_tokens":{number}}}"#));
        assert_eq!(profile, Profile { max_tokens: value, ..nothing() }, "{number}");
    }
    for number in ["01", "1.", ".5", "-", "+1", "1e", "1e+", "--1", "1.2.3", "0x1", "NaN", "1_0"] {
        let profile = chat(&format!(r#"{{"n":1,"max_tokens":{number}}}"#));
        assert_eq!(profile.body, Body::Malformed(Fault::Syntax), "{number}");
        assert_eq!(profile.choices, Some(1));
    }
}

#[test]
fn names_within_the_prompt_are_not_the_request_s() {
    let nested = chat(
        r#"{"messages":[{"role":"user","content":"{\"model\":\"a\"}","model":"b","stream":true}],
        "metadata":{"model":"c","user_id":"u"},"tools":[{"model":"d","n":5}],"x":{"user":"e"}}"#,
    );
    assert_eq!(nested.model, None);
    assert_eq!((nested.stream, nested.choices, nested.user), (None, None, None));
}
