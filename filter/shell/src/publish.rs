//! The feed's side of shared data: accepts what the control plane sent and publishes a table only
//! together with the roster that it was made for.
use isocost_core::estimates::Estimates;
use isocost_core::roster::Roster;
use isocost_core::table::Table;

use crate::shared;

/// The error says why the estimates are refused. They stand alone: no roster or table must fit.
pub fn accept_estimates(bytes: &[u8]) -> Result<(), &'static str> {
    let estimates = Estimates::decode(bytes).map_err(|error| error.text())?;
    shared::publish_estimates(bytes, estimates.version).map_err(|_| "estimates not stored")
}

#[derive(Default)]
pub struct Publisher {
    roster: Option<HeldRoster>,
    /// The newest table, while its roster is not here yet.
    waiting: Option<HeldTable>,
    published: Option<Published>,
}

struct HeldRoster {
    version: u64,
    nodes: usize,
    /// Empty once published.
    bytes: Vec<u8>,
}

struct HeldTable {
    version: u64,
    roster_version: u64,
    built_at_unix_ms: u64,
    nodes: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
pub struct Published {
    pub table_version: u64,
    pub built_at_unix_ms: u64,
}

impl Publisher {
    pub fn published(&self) -> Option<Published> {
        self.published
    }

    /// The error says why the roster is refused.
    pub fn accept_roster(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let roster = Roster::decode(bytes).map_err(|error| error.text())?;
        self.roster = Some(HeldRoster {
            version: roster.version(),
            nodes: roster.nodes().len(),
            bytes: bytes.to_vec(),
        });
        // If the waiting table does not fit, that is not the roster's fault.
        let _ = self.publish();
        Ok(())
    }

    /// The error says why the table is refused.
    pub fn accept_table(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let table = Table::decode(bytes).map_err(|error| error.text())?;
        self.waiting = Some(HeldTable {
            version: table.version,
            roster_version: table.roster_version,
            built_at_unix_ms: table.built_at_unix_ms,
            nodes: table.weight.len(),
            bytes: bytes.to_vec(),
        });
        self.publish()
    }

    fn publish(&mut self) -> Result<(), &'static str> {
        let Some(roster) = &mut self.roster else { return Ok(()) };
        let Some(table) = self.waiting.take_if(|table| table.roster_version == roster.version)
        else {
            return Ok(());
        };
        if table.nodes != roster.nodes {
            return Err("the table's length is not the roster's");
        }
        if !roster.bytes.is_empty() {
            shared::publish_roster(&roster.bytes).map_err(|_| "roster not stored")?;
            roster.bytes = Vec::new();
        }
        shared::publish_table(&table.bytes, table.version).map_err(|_| "table not stored")?;
        self.published = Some(Published {
            table_version: table.version,
            built_at_unix_ms: table.built_at_unix_ms,
        });
        Ok(())
    }
}
