//! Any order of Envoy's callbacks, any calls of its host failing meanwhile: no panic, no request
//! held up, and nothing left open at the end.

use isocost_core::Rng;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::envoy::{reported, run, set_fate, Envoy, NODES};
use super::exports::*;
use super::fake::{world, BAD_ARGUMENT, INTERNAL_FAILURE, NOT_FOUND, OK};
use super::is_handed_on;

#[derive(Clone, Debug)]
enum Event {
    Ticks(u64),
    Begin,
    Request(prop::sample::Index, OfRequest),
    Message(u32, Vec<u8>),
    CloseStreams,
    Configure,
    RemoveRoot(prop::sample::Index),
    /// Callbacks for a stream that nobody opened.
    StrangeStream(u32),
}

#[derive(Clone, Debug, PartialEq)]
enum OfRequest {
    Respond(usize, bool),
    Body(bool),
    Trailers,
    End,
}

fn event() -> impl Strategy<Value = Event> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (1u64..40).prop_map(Event::Ticks),
        6 => Just(Event::Begin),
        13 => (index(), of_request()).prop_map(|(i, event)| Event::Request(i, event)),
        1 => (0u32..4, any::<Vec<u8>>()).prop_map(|(token, bytes)| Event::Message(token, bytes)),
        1 => Just(Event::CloseStreams),
        1 => Just(Event::Configure),
        1 => index().prop_map(Event::RemoveRoot),
        1 => (1_000_000u32..).prop_map(Event::StrangeStream),
    ]
}

fn of_request() -> impl Strategy<Value = OfRequest> {
    prop_oneof![
        4 => (0..NODES.len(), any::<bool>()).prop_map(|(node, end)| OfRequest::Respond(node, end)),
        4 => any::<bool>().prop_map(OfRequest::Body),
        1 => Just(OfRequest::Trailers),
        4 => Just(OfRequest::End),
    ]
}

fn live(mut envoy: Envoy, seed: u64, chance: f64, events: Vec<Event>) {
    assert!(envoy.configure(b""));
    let mut rng = Rng::with_seed(seed);
    set_fate(move |call| {
        let status = [BAD_ARGUMENT, NOT_FOUND, INTERNAL_FAILURE][rng.usize(0..3)];
        if rng.f64() < chance && is_handed_on(call, status) {
            status
        } else {
            OK
        }
    });
    let mut open = Vec::new();
    for event in events {
        match event {
            Event::Ticks(count) => envoy.ticks(count),
            Event::Begin if !envoy.roots.is_empty() => open.push(envoy.begin().0),
            Event::Begin => {}
            Event::Message(token, bytes) => envoy.message(token, &bytes),
            Event::CloseStreams => envoy.close_streams(),
            Event::Configure => {
                envoy.configure(b"");
            }
            Event::RemoveRoot(index) => {
                if let Some(root) = of(index, &envoy.roots) {
                    envoy.remove_root(root);
                }
            }
            Event::Request(index, event) => {
                if let Some(id) = of(index, &open) {
                    go_on(&envoy, id, &event);
                    open.retain(|other| *other != id || event != OfRequest::End);
                }
            }
            Event::StrangeStream(token) => {
                proxy_on_grpc_receive(1, token, 0);
                proxy_on_grpc_close(1, token, 0);
            }
        }
    }
    set_fate(|_| OK);
    open.into_iter().for_each(|id| envoy.end(id));
    envoy.configure(b"");
    envoy.ticks(300);
    assert!(envoy.request().destination.is_some(), "{:?}", world(|world| world.log.clone()));
    envoy.ticks(20);
    assert_eq!(reported().unwrap().open, 0);
}

fn of(index: prop::sample::Index, ids: &[u32]) -> Option<u32> {
    (!ids.is_empty()).then(|| *index.get(ids))
}

fn go_on(envoy: &Envoy, request: u32, event: &OfRequest) {
    match *event {
        OfRequest::Respond(node, end) => envoy.respond(request, NODES[node], end),
        OfRequest::Body(end) => envoy.body(request, end),
        OfRequest::Trailers => {
            proxy_on_response_trailers(request, 1);
        }
        OfRequest::End => envoy.end(request),
    }
}

/// The same cases in every run, unless PROPTEST_RNG_SEED and PROPTEST_CASES say otherwise.
fn property() -> Config {
    let given = Config::default();
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        seed => seed,
    };
    Config { rng_seed, failure_persistence: None, ..given }
}

proptest! {
    #![proptest_config(property())]

    #[test]
    fn any_life_on_a_host_that_fails_ends_well(
        seed: u64,
        chance in prop::sample::select(&[0.0, 0.01, 0.1, 0.5, 1.0][..]),
        events in prop::collection::vec(event(), 0..80),
    ) {
        let name = format!("seed {seed} chance {chance} {events:?}");
        let life = run(name, move |envoy| live(envoy, seed, chance, events));
        prop_assert!(life.is_ok());
    }
}
