//! Envoy retries within the list, and not behind it.

use super::envoy::{routed, run, Envoy};
use super::fake::world;

fn max_retries() -> Option<Vec<u8>> {
    world(|world| world.request_headers.get(&b"x-envoy-max-retries"[..]).cloned())
}

fn lives(configuration: &'static [u8], retries: &'static [u8]) {
    let life = move |mut envoy: Envoy| {
        assert!(envoy.configure(configuration));
        envoy.begin();
        // Where Envoy chooses, the route's number holds.
        assert_eq!((routed().destination, max_retries()), (None, None));
        envoy.ticks(100);
        envoy.begin();
        assert_eq!(max_retries().as_deref(), Some(retries));
    };
    run("retries".into(), life).unwrap();
}

#[test]
fn as_many_retries_are_allowed_as_alternates_are_listed() {
    // Two nodes.
    lives(b"", b"1");
    lives(br#"{"alternates": 0}"#, b"0");
}
