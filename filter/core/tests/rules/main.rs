//! The rules of the core, one file per concept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod fixtures;

mod asking;
mod attempts;
mod backlog;
mod config;
mod decoding;
mod eligibility;
mod estimates;
mod golden;
mod head;
mod jwt;
mod latency;
mod lease;
mod ledger;
mod marks;
mod min_entropy;
mod model_source;
mod not_found;
mod prefix_index;
mod profile_body;
mod profile_estimate;
mod profile_prefix;
mod profile_reference;
mod profile_requests;
mod profile_shapes;
mod prompt;
mod roster;
mod shares;
mod usage;
mod wire;
mod workers;
mod xds;
