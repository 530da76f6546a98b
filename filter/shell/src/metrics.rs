//! The filter's own numbers in Envoy's statistics (there as `wasmcustom.isocost.*`).
//!
//! One number each for the whole Envoy, never one per node: Envoy frees no metric.
use isocost_core::pick::Reason;

use crate::host::{Counter, Gauge};

pub struct Metrics {
    /// Version of the table that the picks use; 0 = none yet.
    pub table_version: Gauge,
    pub table_age_ms: Gauge,
    /// 1 while the control plane answers.
    pub feed_connected: Gauge,
    pub streams_opened: Counter,
    /// Resources that the feed refused.
    pub nacks: Counter,
    /// Envoy's cluster did not have a listed node any more.
    pub stale_choices: Counter,
    /// Sources of a request's model that name different ones.
    pub model_mismatches: Counter,
    fallback_no_table: Counter,
    fallback_stale_table: Counter,
    fallback_no_eligible: Counter,
    fallback_host_failure: Counter,
    unknown_model: Counter,
}

impl Metrics {
    pub fn define() -> Metrics {
        Metrics {
            table_version: Gauge::define("isocost.table_version"),
            table_age_ms: Gauge::define("isocost.table_age_ms"),
            feed_connected: Gauge::define("isocost.feed_connected"),
            streams_opened: Counter::define("isocost.feed_streams_opened"),
            nacks: Counter::define("isocost.feed_nacks"),
            stale_choices: Counter::define("isocost.stale_choices"),
            model_mismatches: Counter::define("isocost.model_mismatches"),
            fallback_no_table: Counter::define("isocost.fallback_no_table"),
            fallback_stale_table: Counter::define("isocost.fallback_stale_table"),
            fallback_no_eligible: Counter::define("isocost.fallback_no_eligible"),
            fallback_host_failure: Counter::define("isocost.fallback_host_failure"),
            unknown_model: Counter::define("isocost.unknown_model"),
        }
    }

    pub fn count(&self, reason: Reason) {
        match reason {
            Reason::Picked => {}
            Reason::NoTable => self.fallback_no_table.increment(),
            Reason::StaleTable => self.fallback_stale_table.increment(),
            Reason::NoEligible => self.fallback_no_eligible.increment(),
            Reason::HostFailure => self.fallback_host_failure.increment(),
            Reason::UnknownModel => self.unknown_model.increment(),
        }
    }
}
