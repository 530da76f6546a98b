//! The rules of the core, one file per concept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod fixtures;

mod attempts;
mod backlog;
mod config;
mod decoding;
mod eligibility;
mod golden;
mod head;
mod latency;
mod lease;
mod ledger;
mod min_entropy;
mod profile_body;
mod profile_estimate;
mod profile_prefix;
mod profile_reference;
mod profile_requests;
mod profile_shapes;
mod roster;
mod shares;
mod stream;
mod stream_usage;

mod wire;
mod workers;
mod xds;
