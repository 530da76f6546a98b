//! What the VMs of one Envoy share: the names, and how the feed's table is published and found.
use isocost_core::lease::Lease;

use crate::host::{self, Failure, Queue};

pub const LEASE: &[u8] = b"isocost.feed";
const ROSTER: &[u8] = b"isocost.roster";
const TABLE: &[u8] = b"isocost.table";
/// The version of the table, written last: what the other VMs look at.
const VERSION: &[u8] = b"isocost.version";
const ESTIMATES: &[u8] = b"isocost.estimates";
const ESTIMATES_VERSION: &[u8] = b"isocost.estimates_version";
const OBSERVATIONS: &[u8] = b"isocost.observations";

/// The lease, if there is one, and the number that a compare-and-set of it needs. A failure: nobody
/// knows whose it is.
pub fn lease() -> host::Result<(Option<Lease>, u32)> {
    match host::shared(LEASE) {
        Ok((bytes, cas)) => Ok((Lease::decode(&bytes), cas)),
        Err(Failure::NOT_FOUND) => Ok((None, 0)),
        Err(failure) => Err(failure),
    }
}

/// False if another VM was faster.
pub fn write_lease(lease: Lease, cas: u32) -> bool {
    host::set_shared(LEASE, &lease.encode(), cas).is_ok()
}

/// 0 = no table yet.
pub fn table_version() -> u64 {
    version(VERSION)
}

/// 0 = no estimates yet.
pub fn estimates_version() -> u64 {
    version(ESTIMATES_VERSION)
}

fn version(key: &[u8]) -> u64 {
    match host::shared(key) {
        Ok((bytes, _)) => bytes.try_into().map_or(0, u64::from_le_bytes),
        Err(_) => 0,
    }
}

pub fn table() -> host::Result<Vec<u8>> {
    host::shared(TABLE).map(|(bytes, _)| bytes)
}

pub fn roster() -> host::Result<Vec<u8>> {
    host::shared(ROSTER).map(|(bytes, _)| bytes)
}

pub fn estimates() -> host::Result<Vec<u8>> {
    host::shared(ESTIMATES).map(|(bytes, _)| bytes)
}

pub fn publish_estimates(bytes: &[u8], version: u64) -> host::Result<()> {
    host::set_shared(ESTIMATES, bytes, 0)?;
    host::set_shared(ESTIMATES_VERSION, &version.to_le_bytes(), 0)
}

pub fn publish_roster(bytes: &[u8]) -> host::Result<()> {
    host::set_shared(ROSTER, bytes, 0)
}

pub fn publish_table(bytes: &[u8], version: u64) -> host::Result<()> {
    host::set_shared(TABLE, bytes, 0)?;
    host::set_shared(VERSION, &version.to_le_bytes(), 0)
}

/// The queue as the one that reads it.
pub fn take_observations_queue() -> host::Result<Queue> {
    host::register_queue(OBSERVATIONS)
}

/// The queue as one that writes to it; there is none before the first feed.
pub fn find_observations_queue() -> host::Result<Queue> {
    let vm_id = host::property(b"plugin_vm_id")?;
    host::resolve_queue(&vm_id, OBSERVATIONS)
}
