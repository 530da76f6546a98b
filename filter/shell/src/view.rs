//! The reader role: this VM's own copy of the published table, ready for picking.
use std::rc::Rc;

use isocost_core::fleet::Fleet;
use isocost_core::roster::Roster;
use isocost_core::table::Table;
use isocost_core::wire::DecodeError;

use crate::shared;

#[derive(Default)]
pub struct View {
    fleet: Option<Fleet>,
}

impl View {
    pub fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_ref()
    }

    /// Decodes the published table if it is another than the one at hand. Keeps that one if the
    /// published one cannot be used: the next call finds it again.
    pub fn refresh(&mut self) {
        let published = shared::table_version();
        let at_hand = self.fleet.as_ref().map_or(0, Fleet::version);
        if published == at_hand {
            return;
        }
        let Ok(bytes) = shared::table() else { return };
        if let Ok(fleet) = self.build(&bytes) {
            self.fleet = Some(fleet);
        }
    }

    fn build(&self, bytes: &[u8]) -> Result<Fleet, DecodeError> {
        let table = Table::decode(bytes)?;
        let known = self.fleet.as_ref().map(Fleet::roster);
        let roster = match known {
            Some(roster) if roster.version() == table.roster_version => Rc::clone(roster),
            _ => Rc::new(Roster::decode(&shared::roster().unwrap_or_default())?),
        };
        Fleet::build(roster, table)
    }
}
