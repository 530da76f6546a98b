//! The whole filter natively, as Envoy runs it, on a host whose calls fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bodies;
mod envoy;
mod exports;
mod failing_calls;
mod fake;
mod hung_streams;
mod lost_streams;
mod measured;
mod random_lives;
mod retries;
mod uncalled;

/// Can the filter do anything about this failure? The SDK panics by itself on the others.
fn is_handed_on(call: &str, status: u32) -> bool {
    match call {
        // The SDK opens the streams. It expects what Envoy returns there.
        "grpc_stream" => [fake::PARSE_FAILURE, fake::INTERNAL_FAILURE].contains(&status),
        // The SDK calls it before each gRPC callback. Envoy refuses a context that it does not
        // have, and the SDK looks for its own first.
        "set_effective_context" => false,
        _ => true,
    }
}
