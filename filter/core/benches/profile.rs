//! What reading a request's body costs, by its size and what it is made of.

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use isocost_core::profile::{Api, Scanner};

const ENGLISH: &str =
    "The quick brown fox jumps over the lazy dog, and in 1984 nobody was surprised \
    that it did; the dog had been asleep since a quarter past noon. ";
const CHINESE: &str = "敏捷的棕色狐狸跳过了懒狗，谁也不觉得奇怪：那只狗从中午起就一直在睡觉。";
const CODE: &str =
    "    for line in text.split(\"\\n\"):\n        if not line:  # blank\n            \
    continue\n        total += len(line)\n";

/// Envoy hands a body over in pieces of at most about this size.
const CHUNK_BYTES: usize = 65_536;

/// A chat request of about that many bytes: a short system prompt and one long message.
fn body(text: &str, bytes: usize) -> Vec<u8> {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let head = concat!(
        r#"{"model":"mistral-7b","messages":[{"role":"system","content":"Be brief."},"#,
        r#"{"role":"user","content":""#
    );
    let tail = r#""}],"max_tokens":128,"stream":true}"#;
    let room = bytes - head.len() - tail.len();
    let mut body = head.to_owned();
    let mut written = 0;
    while written + escaped.len() <= room {
        body += &escaped;
        written += escaped.len();
    }
    body += &"x".repeat(room - written);
    (body + tail).into_bytes()
}

/// Many small messages, as agents send them.
fn turns(bytes: usize) -> Vec<u8> {
    let message =
        format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"{ENGLISH}"}}]}},"#);
    let count = bytes / message.len();
    let messages = message.repeat(count);
    format!(r#"{{"messages":[{}],"model":"m"}}"#, messages.trim_end_matches(',')).into_bytes()
}

/// A picture in base64 and a short question.
fn picture(bytes: usize) -> Vec<u8> {
    format!(
        concat!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"image_url","#,
            r#""image_url":{{"url":"data:image/png;base64,{}"}}}},"#,
            r#"{{"type":"text","text":"What is this?"}}]}}]}}"#
        ),
        "iVBORw0K".repeat(bytes / 8)
    )
    .into_bytes()
}

fn profile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("profile");
    let mut bodies: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, bytes) in [("200B", 200), ("16KB", 16_384), ("256KB", 262_144)] {
        bodies.push((format!("english/{name}"), body(ENGLISH, bytes)));
    }
    for (name, text) in [("chinese", CHINESE), ("code", CODE)] {
        bodies.push((format!("{name}/16KB"), body(text, 16_384)));
    }
    bodies.push(("turns/16KB".to_owned(), turns(16_384)));
    bodies.push(("picture/256KB".to_owned(), picture(262_144)));
    bodies.push(("upload/256KB".to_owned(), vec![b'-'; 262_144]));
    for (name, body) in bodies {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(&name, |bencher| {
            bencher.iter(|| {
                let mut scanner = Scanner::new(Api::ChatCompletions);
                black_box(&body).chunks(CHUNK_BYTES).for_each(|chunk| scanner.feed(chunk));
                black_box(scanner.finish())
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = profile
}
criterion_main!(benches);
