//! Fleets to test with.

use std::rc::Rc;

use isocost_core::fleet::Fleet;
use isocost_core::ledger::{BatchHeader, Ending, Ledger, Outcome};
use isocost_core::load::Load;
use isocost_core::pick::{Pick, Policy, Query, Rules};
use isocost_core::roster::{Roster, RosterNode};
use isocost_core::table::{NodeState, Table};
use isocost_core::work::Work;
use isocost_core::Rng;
use proptest::test_runner::{Config, RngSeed};

pub const ROSTER_VERSION: u64 = 11;
pub const SERVING: u8 = NodeState::Serving as u8;

/// A node in this slot, with id slot + 1000 and address 10.0.x.y:8000.
pub fn node(slot: usize, host: &str) -> RosterNode {
    RosterNode {
        id: slot as u64 + 1000,
        address: format!("10.0.{}.{}:8000", slot / 256, slot % 256),
        rack: String::from("r1"),
        host: String::from(host),
        ..RosterNode::default()
    }
}

/// A roster with a node on each of the hosts named.
pub fn roster_on(hosts: &[&str]) -> Rc<Roster> {
    let nodes = hosts.iter().enumerate().map(|(slot, host)| node(slot, host)).collect();
    Rc::new(Roster::new(ROSTER_VERSION, nodes).unwrap())
}

/// A roster whose nodes stand on hosts of `per_host` nodes.
pub fn roster(count: usize, per_host: usize) -> Rc<Roster> {
    let hosts: Vec<String> = (0..count).map(|slot| format!("h{:05}", slot / per_host)).collect();
    roster_on(&hosts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A table of serving nodes.
pub fn table(weight: &[f32], entropy: &[f32]) -> Table {
    Table {
        version: 5,
        roster_version: ROSTER_VERSION,
        built_at_unix_ms: 1_000_000,
        weight: weight.to_vec(),
        entropy: entropy.to_vec(),
        state: vec![SERVING; weight.len()],
        ..Table::default()
    }
}

/// The policy with nothing but the draw: what was sent before does not matter.
pub fn pure(policy: Policy, alternates: usize) -> Rules {
    Rules { policy, alternates, projection: false, dispersion: false }
}

/// Picks for a request of which nothing is known, by the draw alone.
pub fn pick(fleet: &Fleet, policy: Policy, alternates: usize, rng: &mut Rng) -> Option<Pick> {
    fleet.pick(&pure(policy, alternates), &Query::default(), &Load::new(1), rng)
}

/// A VM with the table that all have.
pub struct Vm {
    pub fleet: Fleet,
    pub load: Load,
    /// Of the last request.
    pub work: Work,
    rng: Rng,
}

impl Vm {
    pub fn new(roster: &Rc<Roster>, table: &Table, incarnation: u64, seed: u64) -> Vm {
        let fleet = Fleet::build(Rc::clone(roster), table.clone()).unwrap();
        let mut load = Load::new(incarnation);
        load.rebase(&fleet);
        Vm { fleet, load, work: Work::default(), rng: Rng::with_seed(seed * 1000 + incarnation) }
    }

    /// A new table comes.
    pub fn renew(&mut self, table: Table) {
        self.fleet = Fleet::build(Rc::clone(self.fleet.roster()), table).unwrap();
        self.load.rebase(&self.fleet);
    }

    /// Picks and opens; the slot.
    pub fn send(&mut self, rules: &Rules, query: &Query) -> usize {
        let pick = self.fleet.pick(rules, query, &self.load, &mut self.rng).unwrap();
        let node = self.fleet.roster().node(pick.first()).unwrap().id;
        self.work = pick.work();
        self.load.opened(node, self.work);
        pick.first() as usize
    }
}

/// With everything on.
pub fn rules(policy: Policy) -> Rules {
    Rules { policy, alternates: 0, projection: true, dispersion: true }
}

/// A request of which only the length is known.
pub fn query() -> Query<'static> {
    Query { prompt_tokens: 1000, output_tokens: 200, ..Query::default() }
}

/// Serving nodes with these weights, each on its own host.
pub fn weighted(weight: &[f32]) -> Fleet {
    let table = table(weight, &vec![0.0; weight.len()]);
    Fleet::build(roster(weight.len(), 1), table).unwrap()
}

/// Serving nodes with these entropies, each on its own host.
pub fn entropic(entropy: &[f32]) -> Fleet {
    Fleet::build(roster(entropy.len(), 1), table(&vec![1.0; entropy.len()], entropy)).unwrap()
}

/// What the VM of this incarnation hands over: requests open on one node.
pub fn batch(incarnation: u64, leaving: bool) -> Vec<u8> {
    let header = BatchHeader { envoy: b"e", incarnation, sequence: 1, table_version: 1, leaving };
    let mut ledger = Ledger::new();
    ledger.open(7, 1000, Work::default());
    let mut bytes = Vec::new();
    ledger.encode_batch(&header, 1000, &mut bytes);
    bytes
}

/// A request of which only the ending is known.
pub fn unmeasured(ending: Ending) -> Outcome {
    Outcome {
        ending,
        first_byte_us: None,
        tpot_us: None,
        total_us: None,
        chunks: 0,
        output_tokens: None,
        finish: None,
    }
}

/// A property test's settings: `times` the usual number of cases, the same ones in every run
/// unless PROPTEST_RNG_SEED and PROPTEST_CASES say otherwise.
pub fn property(times: u32) -> Config {
    let given = Config::default();
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        seed => seed,
    };
    Config { cases: given.cases * times, rng_seed, failure_persistence: None, ..given }
}
