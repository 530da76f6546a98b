//! The racks that a user's requests go to, so that they find their session's cache: rendezvous
//! hashing, so that a rack that goes moves only its own users.

use core::cell::{Cell, OnceCell};

use crate::hash::{mix, name_hash};
use crate::models::Member;
use crate::roster::RosterNode;

/// How many racks a user has, the best first; more are nowhere near.
pub(crate) const HOMES: usize = 4;
pub(crate) type RackList = [u16; HOMES];
/// No rack.
const NONE: u16 = u16::MAX;
/// So many sorts of users are told apart. The racks of each are worked out once per roster.
const USERS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Homes {
    /// Number and hash of each rack that the group has nodes in.
    racks: Vec<(u16, u64)>,
    of_users: OnceCell<Vec<Cell<RackList>>>,
}

impl Homes {
    pub fn of_racks(members: &[Member], nodes: &[RosterNode], rack_of: &[u32]) -> Homes {
        let mut racks: Vec<(u16, u64)> = Vec::new();
        for member in members {
            let slot = member.slot as usize;
            let (Some(node), Some(&rack)) = (nodes.get(slot), rack_of.get(slot)) else { continue };
            let Ok(rack) = u16::try_from(rack) else { continue };
            if let Err(place) = racks.binary_search_by_key(&rack, |(number, _)| *number) {
                racks.insert(place, (rack, name_hash(node.rack.as_bytes())));
            }
        }
        Homes { racks, of_users: OnceCell::new() }
    }

    /// The numbers of the user's racks, the best first.
    pub fn of(&self, user: u64) -> impl Iterator<Item = u32> {
        let users = || vec![Cell::new([NONE; HOMES]); USERS];
        let kind = mix(user) % USERS as u64;
        let cell = self.of_users.get_or_init(users).get(kind as usize);
        let mut homes = cell.map_or([NONE; HOMES], Cell::get);
        if let [NONE, ..] = homes {
            homes = self.rank(kind);
            if let Some(cell) = cell {
                cell.set(homes);
            }
        }
        homes.into_iter().filter(|&rack| rack != NONE).map(u32::from)
    }

    fn rank(&self, kind: u64) -> RackList {
        let mut best = [(0, NONE); HOMES];
        for &(rack, hash) in &self.racks {
            let mut next = (mix(hash ^ mix(kind)), rack);
            for place in &mut best {
                if next.0 > place.0 || place.1 == NONE {
                    core::mem::swap(place, &mut next);
                }
            }
        }
        best.map(|(_, rack)| rack)
    }
}
