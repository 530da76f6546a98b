//! Envoy retries a request for a model within the list, and not behind it.

use super::envoy::{run, Envoy};
use super::exports::*;
use super::fake::world;

/// How many retries the filter allows for a request with these headers; None: the route's number.
fn allowed(envoy: &mut Envoy, headers: &[(&str, &str)]) -> Option<Vec<u8>> {
    let id = envoy.open(headers);
    proxy_on_request_headers(id, headers.len(), true);
    world(|world| world.request_headers.get(&b"x-envoy-max-retries"[..]).cloned())
}

fn lives(configuration: &'static [u8], retries: Option<&'static [u8]>) {
    let life = move |mut envoy: Envoy| {
        assert!(envoy.configure(configuration));
        envoy.model = Some("m");
        let names_it = [("x-isocost-model", "m")];
        // Envoy chooses.
        assert_eq!(allowed(&mut envoy, &names_it), None);
        envoy.ticks(100);
        assert_eq!(allowed(&mut envoy, &names_it).as_deref(), retries);
        // Any node will do.
        assert_eq!(allowed(&mut envoy, &[]), None);
    };
    run("retries".into(), life).unwrap();
}

#[test]
fn a_request_for_a_model_is_retried_as_often_as_alternates_are_listed() {
    // Two nodes, where the route allows two retries.
    lives(b"", Some(b"1"));
    // As many as the route allows.
    lives(br#"{"alternates": 1}"#, None);
}

/// How many properties are asked for when a node answers with these headers.
fn asked(envoy: &mut Envoy, headers: &[(&str, &str)]) -> u32 {
    let (id, _) = envoy.begin();
    let before = world(|world| {
        let own = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        world.response_headers = own.collect();
        world.calls.get("get_property").copied().unwrap_or(0)
    });
    proxy_on_response_headers(id, headers.len(), true);
    let after = world(|world| world.calls.get("get_property").copied().unwrap_or(0));
    envoy.end(id);
    after - before
}

#[test]
fn the_number_of_attempts_is_read_from_the_answer_s_headers_if_it_is_there() {
    let life = |mut envoy: Envoy| {
        assert!(envoy.configure(b""));
        envoy.ticks(100);
        let status = (":status", "200");
        let time = ("x-envoy-upstream-service-time", "3");
        assert_eq!(asked(&mut envoy, &[status, time]), 2);
        assert_eq!(asked(&mut envoy, &[status, time, ("x-envoy-attempt-count", "2")]), 1);
    };
    run("attempts".into(), life).unwrap();
}
