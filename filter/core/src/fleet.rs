//! A roster and its table, made ready for picking: what a policy needs is built when its first
//! request comes, once per table, so that no request ever scans the fleet.

use core::cell::{Cell, OnceCell};
use std::rc::Rc;

use crate::load::{Load, Projected};
use crate::pick::{choose, Pick, Policy, Pool, Query, Rules};
use crate::roster::Roster;
use crate::table::{NodeState, Seen, Table};
use crate::wire::DecodeError;
use crate::Rng;

/// What a table says of one node, in one piece: a pick reads it all. Every number but the
/// entropy is finite and not negative.
pub(crate) struct Row {
    /// What it takes of the traffic relative to the others, by the number of the policy; 0 = it is
    /// never picked.
    parts: [f32; Policy::ALL.len()],
    /// Infinite if the node must not be listed at all.
    pub entropy: f32,
    pub load: Projected,
    pub token_s: f32,
    pub request_s: f32,
    pub extra_s: f32,
    /// 0 = not known.
    pub kv_capacity_tokens: f32,
    /// How many requests this VM sent there since the table came.
    pub dispatched: Cell<u32>,
}

/// Everything a pick needs.
pub struct Fleet {
    roster: Rc<Roster>,
    table_version: u64,
    built_at_unix_ms: u64,
    seen: Vec<Seen>,
    rows: Vec<Row>,
    /// Per policy, group of nodes and length class.
    pools: Vec<OnceCell<Box<Pool>>>,
}

/// For a node of which nothing was learned: that of one modern GPU with an 8B model.
const TOKEN_S: f32 = 1.0 / 15_000.0;
const REQUEST_S: f32 = 0.002;
/// Beyond this no number means anything.
const LARGEST: f32 = 1e9;

impl Row {
    fn read(table: &Table, slot: usize) -> Row {
        let number = |column: &[f32], otherwise: f32| match column.get(slot) {
            Some(&number) if number >= 0.0 => number.min(LARGEST),
            _ => otherwise,
        };
        let count = |column: &[u32]| column.get(slot).map_or(0.0, |&count| count as f32);
        let state = NodeState::from_byte(table.state.get(slot).copied().unwrap_or(0));
        let entropy = table.entropy.get(slot).copied();
        let entropy = entropy.filter(|entropy| state.eligible() && entropy.is_finite());
        let part = |column: &[f32]| {
            let part = column.get(slot).copied().unwrap_or(0.0);
            if entropy.is_some() && part.is_finite() && part > 0.0 {
                part
            } else {
                0.0
            }
        };
        let weight = part(&table.weight);
        let (capacity, any) = if table.capacity.is_empty() {
            // Document A asks for no weight.
            (weight, if entropy.is_some() { 1.0 } else { 0.0 })
        } else {
            (part(&table.capacity), part(&table.capacity))
        };
        Row {
            parts: [weight, any, capacity],
            entropy: entropy.unwrap_or(f32::INFINITY),
            load: Projected {
                pending_tokens: count(&table.pending_tokens),
                open: count(&table.open),
                kv_tokens: count(&table.kv_tokens),
            },
            token_s: number(&table.token_s, TOKEN_S),
            request_s: number(&table.request_s, REQUEST_S),
            extra_s: number(&table.extra_s, 0.0),
            kv_capacity_tokens: number(&table.kv_capacity_tokens, 0.0),
            dispatched: Cell::new(0),
        }
    }

    pub fn part(&self, policy: Policy) -> f32 {
        self.parts.get(policy as usize).copied().unwrap_or(0.0)
    }
}

impl Fleet {
    /// Refuses a table that was not made for this roster.
    pub fn build(roster: Rc<Roster>, mut table: Table) -> Result<Fleet, DecodeError> {
        if table.roster_version != roster.version() {
            return Err(DecodeError::new("the table follows another roster"));
        }
        if !table.even() || table.weight.len() != roster.nodes().len() {
            return Err(DecodeError::new("the table's length is not the roster's"));
        }
        let pools = Policy::ALL.len() * roster.models().groups() * roster.length_classes();
        Ok(Fleet {
            table_version: table.version,
            built_at_unix_ms: table.built_at_unix_ms,
            rows: (0..table.weight.len()).map(|slot| Row::read(&table, slot)).collect(),
            seen: core::mem::take(&mut table.seen),
            pools: (0..pools).map(|_| OnceCell::new()).collect(),
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

    /// Which VMs went into the table.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// How old the table is; 0 if the clocks disagree.
    pub fn age_ms(&self, now_unix_ms: u64) -> u64 {
        now_unix_ms.saturating_sub(self.built_at_unix_ms)
    }

    /// Picks a node and up to `alternates` (at most 8) others, on other hosts as long as there are
    /// any; None if no node is eligible. The pick counts as sent.
    pub fn pick(&self, rules: &Rules, query: &Query, load: &Load, rng: &mut Rng) -> Option<Pick> {
        let class = self.roster.length_class(query.prompt_tokens);
        let pool = match self.pool(rules.policy, query, class, load)? {
            none if none.is_empty() && class > 0 => self.pool(rules.policy, query, 0, load)?,
            pool => pool,
        };
        let pick = choose(self, pool, rules, query, load, rng)?;
        let row = self.row(pick.first())?;
        row.dispatched.set(row.dispatched.get().saturating_add(1));
        for pool in self.pools.iter().filter_map(OnceCell::get) {
            pool.sent_to(pick.first(), &self.roster, load.standing().factor);
        }
        Some(pick)
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

    /// What the KV cache of the node in this slot holds; 0 = not known.
    pub fn kv_capacity_tokens(&self, slot: u32) -> u32 {
        self.row(slot).map_or(0, |row| row.kv_capacity_tokens as u32)
    }

    pub(crate) fn row(&self, slot: u32) -> Option<&Row> {
        self.rows.get(slot as usize)
    }

    /// The nodes that may serve the query by its model, if those of this length class.
    fn pool(&self, policy: Policy, query: &Query, class: usize, load: &Load) -> Option<&Pool> {
        let models = self.roster.models();
        let group = models.group_of(query.model)?;
        let number = (policy as usize * models.groups() + group) * self.roster.length_classes();
        let cell = self.pools.get(number + class)?;
        let members = &models.group(group)?.members;
        Some(cell.get_or_init(|| Box::new(Pool::build(self, policy, members, class, load))))
    }
}
