//! What following an answer costs, by the API that streams it: one event per piece, as engines
//! write them, and the whole of it at once.

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use isocost_core::stream::AnswerScanner;

const EVENTS: usize = 128;

fn chat(token: &str) -> String {
    format!(
        concat!(
            r#"data: {{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","#,
            r#""created":1790000000,"model":"mistral-7b","choices":[{{"index":0,"delta":"#,
            r#"{{"content":"{}"}},"logprobs":null,"finish_reason":null}}]}}"#,
            "\n\n"
        ),
        token
    )
}

fn completion(token: &str) -> String {
    format!(
        concat!(
            r#"data: {{"id":"cmpl-0123456789abcdef","object":"text_completion","#,
            r#""created":1790000000,"model":"mistral-7b","choices":[{{"index":0,"text":"{}","#,
            r#""logprobs":null,"finish_reason":null,"stop_reason":null}}],"usage":null}}"#,
            "\n\n"
        ),
        token
    )
}

fn responses(token: &str) -> String {
    format!(
        concat!(
            "event: response.output_text.delta\n",
            r#"data: {{"type":"response.output_text.delta","item_id":"msg_0123456789abcdef","#,
            r#""output_index":0,"content_index":0,"delta":"{}","sequence_number":40}}"#,
            "\n\n"
        ),
        token
    )
}

fn messages(token: &str) -> String {
    format!(
        concat!(
            "event: content_block_delta\n",
            r#"data: {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","#,
            r#""text":"{}"}}}}"#,
            "\n\n"
        ),
        token
    )
}

fn stream(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stream");
    let events = |event: fn(&str) -> String| -> Vec<String> {
        let tokens = [" the", "\\n", " snake_case", " quick"].into_iter().cycle();
        tokens.take(EVENTS).map(event).collect()
    };
    let mut bodies = Vec::new();
    for (name, events) in [
        ("chat", events(chat)),
        ("completions", events(completion)),
        ("responses", events(responses)),
        ("messages", events(messages)),
    ] {
        bodies.push((format!("{name}/whole"), vec![events.concat()]));
        bodies.push((name.to_owned(), events));
    }
    let text = "It is {\\\"a\\\": [1, 2]} for snake_case_names. ".repeat(400);
    let answer =
        format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    bodies.push(("json".to_owned(), vec![answer]));
    for (name, pieces) in bodies {
        let streamed = name != "json";
        group.throughput(Throughput::Bytes(pieces.iter().map(|piece| piece.len() as u64).sum()));
        group.bench_function(&name, |bencher| {
            bencher.iter(|| {
                let mut scanner = AnswerScanner::new(streamed);
                black_box(&pieces).iter().for_each(|piece| scanner.feed(piece.as_bytes()));
                black_box(scanner.output_tokens())
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = stream
}
criterion_main!(benches);
