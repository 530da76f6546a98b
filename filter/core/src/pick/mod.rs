//! Choosing the nodes of one request.

pub(crate) mod affinity;
mod alias;
mod alternates;
mod chooser;
mod cost;
mod dispersion;
mod equal_cost;
mod min_entropy;
mod pool;
mod weighted_random;

pub(crate) use pool::Pool;

use alternates::list;
use chooser::Chooser;

use crate::fleet::Fleet;
use crate::load::Load;
use crate::roster::ModelId;
use crate::work::Work;
use crate::{random, Rng};

/// How nodes are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    WeightedRandom,
    MinEntropy,
    #[default]
    EqualCost,
}

impl Policy {
    pub const ALL: [Policy; 3] = [Policy::WeightedRandom, Policy::MinEntropy, Policy::EqualCost];

    /// The name in configuration and access log.
    pub fn name(self) -> &'static str {
        match self {
            Policy::WeightedRandom => "weighted_random",
            Policy::MinEntropy => "min_entropy",
            Policy::EqualCost => "equal_cost",
        }
    }
}

/// What is the same for all requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub policy: Policy,
    /// How many nodes are listed behind the pick, at most 8.
    pub alternates: usize,
    /// Does what this VM did since the table count?
    pub projection: bool,
    /// Is there a bound on what a node gets between two tables?
    pub dispersion: bool,
}

/// What a request is, as far as the choice asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// None if it names none: then any node may have it.
    pub model: Option<ModelId>,
    pub prompt_tokens: u32,
    /// As expected.
    pub output_tokens: u32,
    /// Hash of the user or session.
    pub user: Option<u64>,
    /// Hash of the prompt's beginning.
    pub prefix_key: Option<u64>,
    /// The nodes that were seen to have answered the same beginning.
    pub held: &'a [Held],
}

/// So many tokens of the prompt are believed to be in the cache of the node in this slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub slot: u32,
    pub tokens: u32,
}

impl Query<'_> {
    /// What the request is to a node that holds nothing of its prompt.
    pub fn work(&self) -> Work {
        Work { prompt_tokens: self.prompt_tokens, kv_tokens: self.tokens() }
    }

    fn tokens(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.output_tokens)
    }
}

/// Why a request has the destination it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Picked,
    NoTable,
    StaleTable,
    NoEligible,
    /// Envoy did not do or say what the choice needs.
    HostFailure,
    /// The request was answered: no node serves its model.
    UnknownModel,
}

impl Reason {
    /// The name in the access log.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Picked => "picked",
            Reason::NoTable => "no_table",
            Reason::StaleTable => "stale_table",
            Reason::NoEligible => "no_eligible",
            Reason::HostFailure => "host_failure",
            Reason::UnknownModel => "unknown_model",
        }
    }
}

/// The most alternates a pick can have.
pub const MAX_ALTERNATES: usize = 8;
const MAX_LISTED: usize = MAX_ALTERNATES + 1;

/// The chosen slots, best first, all different. Small and Copy: every open request holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    slots: [u32; MAX_LISTED],
    len: u8,
    work: Work,
    pending_tokens: Option<u32>,
}

impl Pick {
    fn of(slot: u32) -> Pick {
        let mut slots = [0; MAX_LISTED];
        let [first, ..] = &mut slots;
        *first = slot;
        Pick { slots, len: 1, work: Work::default(), pending_tokens: None }
    }

    /// Adds an alternate; false if there is no room.
    fn push(&mut self, slot: u32) -> bool {
        match self.slots.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = slot;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The slots in the order in which Envoy tries them; never empty.
    pub fn slots(&self) -> &[u32] {
        self.slots.get(..usize::from(self.len)).unwrap_or(&self.slots)
    }

    /// The slot of the pick itself.
    pub fn first(&self) -> u32 {
        let [first, ..] = self.slots;
        first
    }

    /// What the request is to the pick.
    pub fn work(&self) -> Work {
        self.work
    }

    /// What the pick has to read before its answer begins, this prompt included, as it was believed
    /// at the choice. None: it holds most of the prompt, so that the time to the answer is that of
    /// waiting for a place and says nothing of how fast it reads.
    pub fn pending_tokens(&self) -> Option<u32> {
        self.pending_tokens
    }
}

/// Picks from the pool; None if it is empty.
pub(crate) fn choose(
    fleet: &Fleet,
    pool: &Pool,
    rules: &Rules,
    query: &Query,
    load: &Load,
    rng: &mut Rng,
) -> Option<Pick> {
    let kv_bytes = query.model.map_or(0, |model| fleet.roster().kv_bytes_per_token(model));
    let largest = pool.place(*pool.roomy.first()?).limit_tokens;
    let mut chooser = Chooser {
        fleet,
        pool,
        rules,
        query,
        load,
        needed_tokens: (query.tokens() as f32).min(largest),
        request_entropy: cost::request_entropy(query, kv_bytes),
        best: None,
        best_cost: 0.0,
    };
    match rules.policy {
        Policy::WeightedRandom => weighted_random::choose(&mut chooser, rng),
        Policy::MinEntropy => min_entropy::choose(&mut chooser, rng),
        Policy::EqualCost => equal_cost::choose(&mut chooser, rng),
    }
    if chooser.best.is_none() {
        chooser.take_any(rng);
    }
    let first = chooser.best?;
    let mut pick = list(&chooser, first, rng);
    let prompt_tokens = query.prompt_tokens - chooser.held(first);
    let row = fleet.row(first)?;
    let now = if rules.projection { load.project(first, row) } else { row.load };
    pick.work = Work { prompt_tokens, kv_tokens: query.tokens() };
    pick.pending_tokens = (prompt_tokens >= query.prompt_tokens / 2)
        .then(|| (now.pending_tokens as u32).saturating_add(prompt_tokens));
    Some(pick)
}

/// A uniform number below `bound` out of the upper half of `random`, by multiplication: the bias is
/// below bound / 2^32.
fn below(bound: usize, random: u64) -> usize {
    (((random >> 32) * bound as u64) >> 32) as usize
}

/// A uniform member.
fn any(slots: &[u32], rng: &mut Rng) -> Option<u32> {
    slots.get(below(slots.len(), random(rng))).copied()
}
