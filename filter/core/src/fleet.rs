//! A roster and its table, made ready for picking: built once per table, so that no request ever
//! scans the fleet.

use std::rc::Rc;

use crate::pick::{MinEntropy, Pick, Policy, WeightedRandom};
use crate::roster::Roster;
use crate::table::Table;
use crate::wire::DecodeError;
use crate::Rng;

/// Everything a pick needs.
pub struct Fleet {
    roster: Rc<Roster>,
    table_version: u64,
    built_at_unix_ms: u64,
    weighted_random: WeightedRandom,
    min_entropy: MinEntropy,
}

impl Fleet {
    /// Refuses a table that was not made for this roster.
    pub fn build(roster: Rc<Roster>, table: Table) -> Result<Fleet, DecodeError> {
        if table.roster_version != roster.version() {
            return Err(DecodeError::new("the table follows another roster"));
        }
        if !table.even() || table.weight.len() != roster.nodes().len() {
            return Err(DecodeError::new("the table's length is not the roster's"));
        }
        Ok(Fleet {
            table_version: table.version,
            built_at_unix_ms: table.built_at_unix_ms,
            weighted_random: WeightedRandom::build(&roster, &table),
            min_entropy: MinEntropy::build(&roster, &table),
            roster,
        })
    }

    /// Requests keep a clone of this (not of the fleet) to understand their slots later.
    pub fn roster(&self) -> &Rc<Roster> {
        &self.roster
    }

    /// The table's version.
    pub fn version(&self) -> u64 {
        self.table_version
    }

    /// How old the table is; 0 if the clocks disagree.
    pub fn age_ms(&self, now_unix_ms: u64) -> u64 {
        now_unix_ms.saturating_sub(self.built_at_unix_ms)
    }

    /// Picks a node and up to `alternates` (at most 8) others, on other hosts as long as there are
    /// any; None if no node is eligible.
    pub fn pick(&self, policy: Policy, alternates: usize, rng: &mut Rng) -> Option<Pick> {
        match policy {
            Policy::WeightedRandom => self.weighted_random.pick(&self.roster, alternates, rng),
            Policy::MinEntropy => self.min_entropy.pick(&self.roster, alternates, rng),
        }
    }

    /// Appends "ip:port,ip:port".
    pub fn write_destination(&self, pick: &Pick, out: &mut Vec<u8>) {
        let start = out.len();
        for address in pick.slots().iter().filter_map(|&slot| self.roster.address(slot)) {
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(address);
        }
    }
}
