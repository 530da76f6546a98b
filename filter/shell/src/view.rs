//! The reader role: this VM's own copy of the published table, ready for picking.
use std::rc::Rc;

use isocost_core::estimates::Estimates;
use isocost_core::fleet::Fleet;
use isocost_core::prefix_index::PrefixIndex;
use isocost_core::roster::Roster;
use isocost_core::table::Table;
use isocost_core::wire::DecodeError;

use crate::shared;

#[derive(Default)]
pub struct View {
    fleet: Option<Fleet>,
    estimates: Estimates,
}

impl View {
    pub fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_ref()
    }

    /// The defaults before the first ones came.
    pub fn estimates(&self) -> &Estimates {
        &self.estimates
    }

    /// Decodes the published table if it is another than the one at hand, and says whether there is
    /// a new one. Keeps the old one if the published one cannot be used: the next call finds it
    /// again. `prefix` follows the roster and learns what other VMs saw.
    pub fn refresh(&mut self, prefix: &mut PrefixIndex) -> bool {
        let published = shared::table_version();
        let at_hand = self.fleet.as_ref().map_or(0, Fleet::version);
        if published == at_hand {
            return false;
        }
        self.refresh_estimates();
        let Ok(bytes) = shared::table() else { return false };
        self.build(&bytes, prefix).map(|fleet| self.fleet = Some(fleet)).is_ok()
    }

    fn build(&self, bytes: &[u8], prefix: &mut PrefixIndex) -> Result<Fleet, DecodeError> {
        let mut table = Table::decode(bytes)?;
        let placements = core::mem::take(&mut table.placements);
        let known = self.fleet.as_ref().map(Fleet::roster);
        let roster = match known {
            Some(roster) if roster.version() == table.roster_version => Rc::clone(roster),
            _ => Rc::new(Roster::decode(&shared::roster().unwrap_or_default())?),
        };
        let fleet = Fleet::build(roster, table)?;
        let roster = fleet.roster();
        if let Some(before) = known.filter(|before| !Rc::ptr_eq(before, roster)) {
            prefix.remap(&|slot| roster.slot_of(before.node(slot)?.id));
        }
        for placement in &placements {
            if let Some(slot) = roster.slot_of(placement.node_id) {
                placement.blocks.iter().for_each(|&hash| prefix.insert_hash(hash, slot));
            }
        }
        Ok(fleet)
    }

    fn refresh_estimates(&mut self) {
        let published = shared::estimates_version();
        if published == self.estimates.version {
            return;
        }
        let estimates = shared::estimates().ok().and_then(|bytes| Estimates::decode(&bytes).ok());
        if let Some(estimates) = estimates {
            self.estimates = estimates;
        }
    }
}
