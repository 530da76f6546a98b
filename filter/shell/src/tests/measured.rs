//! What a request teaches of its node: the node's own time and work, not the client's, not another
//! node's.

use super::envoy::*;
use super::exports::*;
use super::fake::world;

const POST: &[(&str, &str)] = &[(":method", "POST"), (":path", "/v1/chat/completions")];
const SHORT: u64 = 100;
const FIRST_BYTES: Place = count_of_news(9);
const FIRST_BYTE_US: Place = sum_of_news(0);
const TPOTS: Place = count_of_news(10);
const TPOT_US: Place = sum_of_news(1);
const OUTPUT_TOKENS: Place = sum_of_news(4);
const PREFILLS: Place = count_of_news(12);
const PREFILL_US: Place = sum_of_news(6);

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

/// An event with a token.
fn token(request: u32) {
    piece(
        request,
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n",
    );
}

fn piece(request: u32, bytes: &[u8]) {
    world(|world| world.buffer = bytes.to_vec());
    proxy_on_response_body(request, bytes.len(), false);
}

/// The answer of this node ends here.
fn end(envoy: &mut Envoy, request: u32) {
    proxy_on_response_body(request, 0, true);
    envoy.end(request);
    envoy.ticks(SHORT);
}

/// An answer of this node, whole.
fn answer(envoy: &mut Envoy, request: u32, node: &str) {
    envoy.respond(request, node, false);
    token(request);
    end(envoy, request);
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

#[test]
fn a_node_that_answers_in_place_of_the_pick_is_not_judged_by_what_waited_on_the_pick() {
    serving(|mut envoy| {
        let id = begin(&mut envoy);
        assert_eq!(send(id, b"{}", true), CONTINUE);
        let other = NODES.into_iter().find(|node| *node != picked()).unwrap();
        answer(&mut envoy, id, other);
        assert_eq!((reported_sum(FIRST_BYTES), reported_sum(PREFILLS)), (1, 0));
    });
}

#[test]
fn answers_side_by_side_count_one_by_one() {
    serving(|mut envoy| {
        let id = begin(&mut envoy);
        let body = br#"{"n": 4, "stream": true, "messages": [{"content": "some words"}]}"#;
        assert_eq!(send(id, body, true), CONTINUE);
        envoy.respond(id, picked(), false);
        token(id);
        pass_ms(90);
        token(id);
        piece(id, b"data: {\"usage\": {\"completion_tokens\": 40}}\n\n");
        end(&mut envoy, id);
        // Ten each, nine gaps between them.
        assert_eq!((reported_sum(TPOTS), reported_sum(TPOT_US)), (1, 10_000));
        assert_eq!((reported_sum(OUTPUT_TOKENS), reported_answers()), (40, vec![10]));
    });
}

/// What is pending after this request has begun, and nothing of it was answered.
fn pending(path: &'static str, body: String) -> u64 {
    let (told, heard) = std::sync::mpsc::channel();
    serving(move |mut envoy| {
        let id = envoy.open(&[(":method", "POST"), (":path", path)]);
        assert_eq!(proxy_on_request_headers(id, 2, false), PAUSE);
        assert_eq!(send(id, body.as_bytes(), true), CONTINUE);
        // Once it was reported.
        let is_told = |_| {
            envoy.ticks(1);
            reported_sum(PENDING_TOKENS) > 0
        };
        assert!((0..20).any(is_told));
        told.send(reported_sum(PENDING_TOKENS)).unwrap();
    });
    heard.recv().unwrap()
}

#[test]
fn a_prompt_whose_answer_shows_no_first_token_is_pending_in_part_until_the_end() {
    let words = "word ".repeat(200);
    let chat = |stream| {
        let message = format!(r#"{{"content": "{words}"}}"#);
        pending("/v1/chat/completions", format!(r#"{{"messages": [{message}]{stream}}}"#))
    };
    let whole = chat(r#", "stream": true"#);
    assert!(whole > 150, "{whole}");
    assert_eq!(chat(r#", "stream": false"#), whole / 4);
    assert_eq!(chat(""), whole / 4);
    // An embedding is nothing but the prompt.
    assert!(pending("/v1/embeddings", format!(r#"{{"input": "{words}"}}"#)) >= whole - 10);
}

#[test]
fn a_previous_node_is_named_only_if_the_pick_holds_less() {
    let session =
        format!(r#"{{"stream": true, "messages": [{{"content": "{}"}}]}}"#, "w ".repeat(900));
    let other = session.replace("w ", "x ");
    let previous =
        || world(|world| world.request_headers.get(&b"x-isocost-previous-node"[..]).cloned());
    for holders in [&NODES[1..], &NODES[..]] {
        let (session, other) = (session.clone(), other.clone());
        serving(move |mut envoy| {
            for holder in holders {
                let id = begin(&mut envoy);
                send(id, session.as_bytes(), true);
                answer(&mut envoy, id, holder);
            }
            // The node that was seen last has much to do.
            for _ in 0..20 {
                let id = begin(&mut envoy);
                send(id, other.as_bytes(), true);
                envoy.respond(id, NODES[1], false);
            }
            let id = begin(&mut envoy);
            send(id, session.as_bytes(), true);
            assert_eq!(picked(), NODES[0]);
            let expected = (holders.len() == 1).then(|| NODES[1].as_bytes().to_vec());
            assert_eq!(previous(), expected);
        });
    }
}
