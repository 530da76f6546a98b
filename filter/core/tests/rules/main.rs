//! The rules of the core, one file per concept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod affinity;
mod asking;
mod attempts;
mod backlog;
mod bursts;
mod capped_shares;
mod config;
mod decoding;
mod eligibility;
mod estimates;
mod fixtures;
mod golden;
mod head;
mod jwt;
mod latency;
mod lease;
mod ledger;
mod ledger_model;
mod load;
mod marks;
mod min_entropy;
mod model_source;
mod models;
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
mod stream;
mod stream_usage;

mod wire;
mod workers;
mod xds;
