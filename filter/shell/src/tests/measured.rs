//! What a request teaches of its node: the node's own time and work, not the client's, not another
//! node's.

use super::envoy::{reported_sum, run, Envoy, NODES};
use super::exports::*;
use super::fake::world;

const POST: &[(&str, &str)] = &[(":method", "POST"), (":path", "/v1/chat/completions")];
const SHORT: u64 = 100;
/// Fields of a report's nodes.
const FIRST_BYTES: u32 = 12;
const FIRST_BYTE_US: u32 = 13;
const PREFILLS: u32 = 24;
const PREFILL_US: u32 = 26;

fn serving(life: impl FnOnce(Envoy) + Send + 'static) {
    let life = move |mut envoy: Envoy| {
        assert!(envoy.configure(br#"{"profile_limit_bytes": 2000}"#));
        envoy.model = Some("m");
        envoy.ticks(SHORT);
        life(envoy);
    };
    run("measured".into(), life).unwrap();
}

fn pass_ms(ms: u64) {
    world(|world| world.now_ns += ms * 1_000_000);
}

/// A new request with the headers only.
fn begin(envoy: &mut Envoy) -> u32 {
    let id = envoy.open(POST);
    assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
    id
}

/// All of the body that has come.
fn send(request: u32, body: &[u8], end: bool) -> u32 {
    world(|world| world.buffer = body.to_vec());
    proxy_on_request_body(request, body.len(), end)
}

/// The node that the request was sent to.
fn picked() -> &'static str {
    let list = world(|world| world.request_headers[&b"x-isocost-destination"[..]].clone());
    NODES.into_iter().find(|node| list.starts_with(node.as_bytes())).unwrap()
}

/// An answer of this node, whole.
fn answer(envoy: &mut Envoy, request: u32, node: &str) {
    envoy.respond(request, node, false);
    world(|world| {
        world.buffer =
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
                .to_vec();
    });
    let len = world(|world| world.buffer.len());
    proxy_on_response_body(request, len, true);
    envoy.end(request);
    envoy.ticks(SHORT);
}

#[test]
fn a_client_that_is_slow_with_its_body_makes_no_node_slow() {
    for with_trailers in [false, true] {
        serving(move |mut envoy| {
            let id = begin(&mut envoy);
            let clock = || world(|world| world.calls["clock_time_get"]);
            let before = clock();
            pass_ms(5_000);
            if with_trailers {
                assert_eq!(send(id, b"{}", false), PAUSE);
                assert_eq!(proxy_on_request_trailers(id, 1), CONTINUE);
            } else {
                assert_eq!(send(id, b"{}", true), CONTINUE);
            }
            assert_eq!(clock() - before, 1);
            pass_ms(30);
            answer(&mut envoy, id, picked());
            assert_eq!((reported_sum(FIRST_BYTES), reported_sum(FIRST_BYTE_US)), (1, 30_000));
            assert_eq!((reported_sum(PREFILLS), reported_sum(PREFILL_US)), (1, 30_000));
        });
    }
}

#[test]
fn a_body_that_was_still_coming_when_the_node_was_chosen_has_no_time_to_the_first_token() {
    let long = format!(r#"{{"messages": [{{"content": "{}"}}]}}"#, "word ".repeat(1_000));
    for body in [long.into_bytes(), b"--boundary".to_vec()] {
        serving(move |mut envoy| {
            let id = begin(&mut envoy);
            assert_eq!(send(id, &body, false), CONTINUE);
            pass_ms(5_000);
            assert_eq!(send(id, &body, true), CONTINUE);
            answer(&mut envoy, id, picked());
            assert_eq!((reported_sum(FIRST_BYTES), reported_sum(PREFILLS)), (0, 0));
        });
    }
}
