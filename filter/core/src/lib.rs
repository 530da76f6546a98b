//! The pure core of the filter: what the nodes are, which one a request goes to, and what was seen.
//!
//! No host calls, no clock, no I/O: time and randomness are arguments, so that every rule here is
//! tested natively. The shell translates between this crate and Envoy.
#![forbid(unsafe_code)]

mod address;
pub mod asking;
pub mod attempts;
pub mod backlog;
pub mod config;
pub mod estimates;
pub mod fleet;
mod hash;
pub mod head;
mod headers;
mod json;
pub mod jwt;
pub mod latency;
pub mod lease;
pub mod ledger;
pub mod load;
pub mod marks;
pub mod model_source;
mod models;
pub mod not_found;
mod number;
pub mod pick;
pub mod prefix_index;
pub mod profile;
pub mod prompt;
pub mod roster;
mod sort;
pub mod stream;
pub mod table;
pub mod wire;
pub mod work;
pub mod workers;
pub mod xds;

pub use fastrand::Rng;

/// A random number. Not inlined: the product of 128 bits in it is long where it is made of narrower
/// ones.
#[inline(never)]
pub fn random(rng: &mut Rng) -> u64 {
    rng.u64(..)
}
