//! A request waits for its body as long as that tells something, and no longer; each byte of it is
//! read once.

use super::envoy::{reported, routed, run, set_fate, Envoy, NODES};
use super::exports::*;
use super::fake::{world, INTERNAL_FAILURE, OK};

const POST: &[(&str, &str)] = &[(":method", "POST"), (":path", "/v1/chat/completions")];
const SHORT: u64 = 100;

fn serving(configuration: &'static [u8], life: impl FnOnce(Envoy) + Send + 'static) {
    let life = move |mut envoy: Envoy| {
        assert!(envoy.configure(configuration));
        envoy.model = Some("m");
        envoy.ticks(SHORT);
        life(envoy);
    };
    run("bodies".into(), life).unwrap();
}

/// What Envoy does: it holds all that came while the filter pauses.
fn send(request: u32, body: &[u8], piece: usize) -> Vec<u32> {
    let ends = (0..body.len()).step_by(piece).map(|start| (start + piece).min(body.len()));
    ends.map(|end| {
        world(|world| world.buffer = body[..end].to_vec());
        proxy_on_request_body(request, end, end == body.len())
    })
    .collect()
}

fn reads() -> u32 {
    world(|world| world.calls.get("get_buffer_bytes").copied()).unwrap_or(0)
}

fn read_bytes() -> usize {
    world(|world| world.read_bytes)
}

fn decided() -> String {
    routed().decision.unwrap_or_default()
}

fn body(text: usize) -> Vec<u8> {
    format!(r#"{{"messages": [{{"role": "user", "content": "{}"}}]}}"#, "word ".repeat(text))
        .into_bytes()
}

#[test]
fn a_request_waits_for_the_end_of_its_body_and_reads_each_byte_once() {
    serving(b"", |mut envoy| {
        let body = body(1_000);
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        assert_eq!(decided(), "");
        let (reads_before, bytes_before) = (reads(), read_bytes());
        let actions = send(id, &body, 512);
        let (last, earlier) = actions.split_last().unwrap();
        assert!(earlier.iter().all(|action| *action == PAUSE));
        assert_eq!(*last, CONTINUE);
        assert_eq!((reads() - reads_before) as usize, actions.len());
        assert_eq!(read_bytes() - bytes_before, body.len());
        let decision = decided();
        assert!(decision.contains(&format!(" body_bytes={} ", body.len())), "{decision}");
        let tokens = decision.split("prompt_tokens=").nth(1).unwrap();
        let tokens: u32 = tokens.split(' ').next().unwrap().parse().unwrap();
        assert!((900..1_500).contains(&tokens), "{decision}");
        assert!(routed().destination.is_some());
    });
}

#[test]
fn what_is_read_of_a_thousand_pieces_grows_with_the_body_and_not_with_its_square() {
    serving(b"", |mut envoy| {
        for text in [2_000, 20_000] {
            let body = body(text);
            let id = envoy.open(POST);
            assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
            let before = read_bytes();
            let actions = send(id, &body, body.len().div_ceil(1_000));
            assert!((900..=1_000).contains(&actions.len()), "{}", actions.len());
            assert_eq!(read_bytes() - before, body.len());
            envoy.respond(id, NODES[0], true);
            envoy.end(id);
        }
    });
}

#[test]
fn ten_thousand_bodies_in_pieces_leave_nothing_behind() {
    serving(b"", |mut envoy| {
        let body = body(100);
        for _ in 0..10_000 {
            let id = envoy.open(POST);
            assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
            assert_eq!(send(id, &body, body.len().div_ceil(10)).last(), Some(&CONTINUE));
            envoy.respond(id, NODES[0], true);
            envoy.end(id);
        }
        envoy.ticks(SHORT);
        assert_eq!(reported().unwrap().open, 0);
    });
}

#[test]
fn a_body_over_the_limit_is_read_up_to_it() {
    serving(br#"{"profile_limit_bytes": 1000}"#, |mut envoy| {
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        let actions = send(id, &body(10_000), 600);
        assert_eq!(actions[..3], [PAUSE, CONTINUE, CONTINUE]);
        assert!(actions[1..].iter().all(|action| *action == CONTINUE));
        assert!(decided().contains(" body_bytes=1000 "), "{}", decided());
    });
}

#[test]
fn what_has_no_body_that_tells_something_goes_on_at_once() {
    serving(b"", |mut envoy| {
        let get = envoy.open(&[(":method", "GET"), (":path", "/v1/models")]);
        assert_eq!(proxy_on_request_headers(get, 2, false), CONTINUE);
        assert!(decided().contains("reason=picked"));
        let upload = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(upload, 2, false), PAUSE);
        assert_eq!(send(upload, &[b'-'; 3_000], 1_000), [CONTINUE; 3]);
        assert!(decided().contains("reason=picked"));
    });
    serving(br#"{"profile_limit_bytes": 0}"#, |mut envoy| {
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), CONTINUE);
        assert!(decided().contains("reason=picked"));
    });
}

#[test]
fn a_body_that_ends_with_trailers_or_cannot_be_read_holds_nothing_up() {
    serving(b"", |mut envoy| {
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        world(|world| world.buffer = br#"{"model": "m""#.to_vec());
        assert_eq!(proxy_on_request_body(id, 13, false), PAUSE);
        assert_eq!(proxy_on_request_trailers(id, 1), CONTINUE);
        assert!(decided().contains("reason=picked"));
        set_fate(|name| if name == "get_buffer_bytes" { INTERNAL_FAILURE } else { OK });
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        assert_eq!(proxy_on_request_body(id, 13, false), CONTINUE);
        assert!(decided().contains("reason=picked"));
    });
}

#[test]
fn a_model_that_nobody_serves_is_answered_and_counted_nowhere() {
    serving(b"", |mut envoy| {
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        assert_eq!(send(id, br#"{"model": "other"}"#, 100), [PAUSE]);
        let (status, body) = world(|world| world.local_answer.clone()).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert_eq!(status, 404);
        assert!(body.contains("'other' does not exist. Served here: m"), "{body}");
        assert!(decided().contains("reason=unknown_model"));
        envoy.ticks(SHORT);
        assert_eq!(reported().unwrap().open, 0);
        envoy.end(id);

        let id = envoy.open(&[(":method", "POST"), ("x-isocost-model", "m")]);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        assert_eq!(send(id, br#"{"model": "other"}"#, 100), [CONTINUE]);
        assert!(decided().contains("reason=picked"));
    });
}

#[test]
fn a_client_that_goes_while_its_body_is_read_is_counted_nowhere() {
    serving(b"", |mut envoy| {
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        envoy.end(id);
        envoy.ticks(SHORT);
        assert!(reported().is_none_or(|report| report.open == 0));
        assert_eq!(decided(), "");
        let id = envoy.open(POST);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        assert_eq!(send(id, b"{}", 2), [CONTINUE]);
        envoy.respond(id, NODES[0], true);
        envoy.end(id);
        envoy.ticks(SHORT);
        assert_eq!(reported().unwrap().open, 0);
    });
}
