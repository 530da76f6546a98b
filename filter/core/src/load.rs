//! What this VM did that the table has not seen. A table is some 200 ms old, in which a burst would
//! all go to the node that it calls the best; what the VM itself sent since is known at once.

use std::rc::Rc;

use crate::fleet::{Fleet, Row};
use crate::number::larger;
use crate::roster::Roster;
use crate::work::Work;

/// The VM's open requests on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    requests: u32,
    /// Of prompts without a first token yet.
    pending_tokens: u64,
    kv_tokens: u64,
}

impl Open {
    fn as_projected(self) -> Projected {
        Projected {
            pending_tokens: self.pending_tokens as f32,
            open: self.requests as f32,
            kv_tokens: self.kv_tokens as f32,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    id: u64,
    now: Open,
    /// In the VM's last batch that the table contains.
    seen: Open,
    /// It changed since the last batch.
    changed: bool,
}

/// What was open on a node when a batch went out.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sequence: u64,
    place: u32,
    open: Open,
}

/// How the VM stands among all VMs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    /// All requests of the fleet for each one of this VM.
    pub factor: f32,
    /// The shares of the VMs up to this one, which is included.
    pub shares_through: f32,
    /// How many VMs send to the fleet, this one included.
    pub vms: usize,
}

/// A node's load as it is believed to be now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Projected {
    pub pending_tokens: f32,
    pub open: f32,
    pub kv_tokens: f32,
}

/// What a pick asks of a node's books, apart from the rest of them, so that it reads little memory.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    /// What the fleet is believed to have changed since the table.
    change: Projected,
    /// What this VM has open.
    now: Projected,
}

/// The books of one VM by slot. Nodes that the roster does not have any more stand at the end as
/// long as requests are open on them: they can come back.
pub struct Load {
    incarnation: u64,
    roster: Option<Rc<Roster>>,
    nodes: Vec<Node>,
    /// Of each node, in the same order.
    since: Vec<Since>,
    /// Oldest first; of each batch only the nodes that changed.
    marks: Vec<Mark>,
    /// The places that changed since the last batch.
    changed: Vec<u32>,
    /// Does the table contain anything of this VM?
    counted: bool,
    standing: Standing,
}

/// A control plane that is away for long must not make the marks grow; so many more than nodes.
const MAX_MARKS: usize = 4096;

/// The place of a node that was forgotten.
const NOWHERE: u32 = u32::MAX;

impl Load {
    /// The books of the VM with this incarnation, nothing open.
    pub fn new(incarnation: u64) -> Load {
        Load {
            incarnation,
            roster: None,
            nodes: Vec::new(),
            since: Vec::new(),
            marks: Vec::new(),
            changed: Vec::new(),
            counted: false,
            standing: Standing { factor: 1.0, shares_through: 1.0, vms: 1 },
        }
    }

    /// A request was sent to the node; 0 is no node.
    pub fn opened(&mut self, node_id: u64, work: Work) {
        if self.place(node_id).is_none() && node_id != 0 {
            self.nodes.push(Node::new(node_id));
            self.since.push(Since::default());
        }
        self.change(node_id, &|open| {
            open.requests += 1;
            open.pending_tokens = open.pending_tokens.saturating_add(work.prompt_tokens.into());
            open.kv_tokens = open.kv_tokens.saturating_add(work.kv_tokens.into());
        });
    }

    /// An open request's answer began: its prompt is not pending any more.
    pub fn first_token(&mut self, node_id: u64, work: Work) {
        self.change(node_id, &|open| {
            open.pending_tokens = open.pending_tokens.saturating_sub(work.prompt_tokens.into());
        });
    }

    /// An open request ended.
    pub fn closed(&mut self, node_id: u64, work: Work, had_first_token: bool) {
        if !had_first_token {
            self.first_token(node_id, work);
        }
        self.change(node_id, &|open| {
            open.requests = open.requests.saturating_sub(1);
            open.kv_tokens = open.kv_tokens.saturating_sub(work.kv_tokens.into());
            if open.requests == 0 {
                // Whatever was wrong in them ends here.
                *open = Open::default();
            }
        });
    }

    /// An open request without a first token turned out to be on another node.
    pub fn moved(&mut self, from: u64, to: u64, work: Work) {
        self.closed(from, work, false);
        self.opened(to, work);
    }

    /// The state up to here goes out with this batch.
    pub fn batch(&mut self, sequence: u64) {
        for &place in &self.changed {
            if let Some(node) = self.nodes.get_mut(place as usize) {
                node.changed = false;
                self.marks.push(Mark { sequence, place, open: node.now });
            }
        }
        self.changed.clear();
        if let Some(over) = self.marks.len().checked_sub(MAX_MARKS + 2 * self.nodes.len()) {
            self.take_as_seen(over);
        }
    }

    /// A new table came: forgets what it has seen.
    pub fn rebase(&mut self, fleet: &Fleet) {
        if !self.roster.as_ref().is_some_and(|roster| Rc::ptr_eq(roster, fleet.roster())) {
            self.renumber(fleet.roster());
        }
        let seen = fleet.seen();
        let place = seen.iter().position(|seen| seen.incarnation == self.incarnation);
        let own = place.and_then(|place| seen.get(place));
        self.counted = own.is_some();
        if let Some(own) = own {
            let is_seen = |mark: &Mark| mark.sequence <= own.sequence;
            let len = self.marks.iter().position(|mark| !is_seen(mark));
            self.take_as_seen(len.unwrap_or(self.marks.len()));
        }
        let vms = seen.len() + usize::from(own.is_none());
        let usual = 1.0 / vms as f32;
        let known = |share: f32| if share > 0.0 && share <= 1.0 { share } else { usual };
        let share = own.map_or(usual, |own| known(own.share));
        let others = seen.get(..place.unwrap_or(seen.len())).unwrap_or_default();
        self.standing = Standing {
            factor: (1.0 / share).min(2.0 * vms as f32),
            shares_through: share + others.iter().map(|other| known(other.share)).sum::<f32>(),
            vms,
        };
        self.since.clear();
        self.since.extend(self.nodes.iter().map(|node| node.since(self.counted, self.standing)));
    }

    /// All requests of the fleet for each one of this VM.
    pub fn fleet_factor(&self) -> f32 {
        self.standing.factor
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// How many requests more than in the table the fleet is believed to have open in this slot;
    /// never below 0.
    pub(crate) fn opened_since(&self, slot: u32) -> f32 {
        self.since.get(slot as usize).map_or(0.0, |since| larger(since.change.open, 0.0))
    }

    /// The node's load: the table's and the change since, for the whole fleet.
    pub(crate) fn project(&self, slot: u32, row: &Row) -> Projected {
        let Some(Since { change, now }) = self.since.get(slot as usize) else { return row.load };
        let table = &row.load;
        Projected {
            pending_tokens: larger(
                table.pending_tokens + change.pending_tokens,
                now.pending_tokens,
            ),
            open: larger(table.open + change.open, now.open),
            kv_tokens: larger(table.kv_tokens + change.kv_tokens, now.kv_tokens),
        }
    }

    fn place(&self, node_id: u64) -> Option<usize> {
        let roster = self.roster.as_ref();
        if let Some(slot) = roster.and_then(|roster| roster.slot_of(node_id)) {
            return Some(slot as usize);
        }
        let listed = roster.map_or(0, |roster| roster.nodes().len());
        let place = self.nodes.get(listed..)?.iter().position(|node| node.id == node_id)?;
        Some(listed + place)
    }

    fn change(&mut self, node_id: u64, change: &dyn Fn(&mut Open)) {
        let Some(place) = self.place(node_id) else { return };
        let Some(node) = self.nodes.get_mut(place) else { return };
        change(&mut node.now);
        if let Some(since) = self.since.get_mut(place) {
            *since = node.since(self.counted, self.standing);
        }
        if !node.changed {
            node.changed = true;
            self.changed.push(place as u32);
        }
    }

    /// The first marks, so many, are in the table.
    fn take_as_seen(&mut self, len: usize) {
        let mut place = 0;
        let (nodes, all_since) = (&mut self.nodes, &mut self.since);
        let (counted, standing) = (self.counted, self.standing);
        self.marks.retain(|mark| {
            place += 1;
            if place > len {
                return true;
            }
            let place = mark.place as usize;
            if let (Some(node), Some(since)) = (nodes.get_mut(place), all_since.get_mut(place)) {
                node.seen = mark.open;
                *since = node.since(counted, standing);
            }
            false
        });
    }

    fn renumber(&mut self, roster: &Rc<Roster>) {
        let nodes = roster.nodes().iter().map(|node| Node::new(node.id)).collect();
        let before = core::mem::replace(&mut self.nodes, nodes);
        let mut places = Vec::with_capacity(before.len());
        for node in before {
            let slot = roster.slot_of(node.id);
            if let Some(place) = slot.and_then(|slot| self.nodes.get_mut(slot as usize)) {
                *place = node;
            }
            let kept = slot.is_none() && node.now.requests > 0;
            places.push(slot.unwrap_or(if kept { self.nodes.len() as u32 } else { NOWHERE }));
            if kept {
                self.nodes.push(node);
            }
        }
        let new =
            |place: &mut u32| *place = places.get(*place as usize).copied().unwrap_or(NOWHERE);
        self.changed.iter_mut().for_each(new);
        self.marks.iter_mut().for_each(|mark| new(&mut mark.place));
        self.roster = Some(Rc::clone(roster));
    }
}

impl Node {
    fn new(id: u64) -> Node {
        Node { id, now: Open::default(), seen: Open::default(), changed: false }
    }

    /// `counted`: the table contains something of this VM.
    fn since(&self, counted: bool, standing: Standing) -> Since {
        let seen = if counted { self.seen.as_projected() } else { Projected::default() };
        let now = self.now.as_projected();
        let change = |now: f32, seen: f32| (now - seen) * standing.factor;
        Since {
            change: Projected {
                pending_tokens: change(now.pending_tokens, seen.pending_tokens),
                open: change(now.open, seen.open),
                kv_tokens: change(now.kv_tokens, seen.kv_tokens),
            },
            now,
        }
    }
}
