//! The choice for one request: from what it asks for to a list of nodes.
use std::rc::Rc;

use isocost_core::asking::Asked;
use isocost_core::config::FilterConfig;
use isocost_core::estimates::prompt_tokens;
use isocost_core::pick::{Pick, Policy, Query, Reason};
use isocost_core::prefix_index::{Found, Marks};
use isocost_core::profile::Api;
use isocost_core::roster::{ModelId, Roster};
use isocost_core::work::Work;

use crate::vm::Vm;

/// What was chosen, and what the rest of the request needs of it.
#[derive(Default)]
pub struct Choice {
    /// The roster that the slots refer to.
    pub roster: Option<Rc<Roster>>,
    pub listed: Option<Pick>,
    /// The slot that holds the beginning of the session, if it is another than the pick.
    pub previous: Option<u32>,
    /// What the request is to the node that it goes to.
    pub work: Work,
    pub model: Option<ModelId>,
    pub user: Option<u64>,
    pub marks: Option<Box<Marks>>,
}

impl Choice {
    /// The id of the node that comes first in the list.
    pub fn node(&self) -> Option<u64> {
        let slot = self.listed?.first();
        self.roster.as_ref()?.node(slot).map(|node| node.id)
    }
}

/// Why the request goes where it goes, and from which table; the access log shows it.
pub struct Decision {
    /// None: the settings are not known.
    pub policy: Option<Policy>,
    pub reason: Reason,
    /// 0 = no table.
    pub table_version: u64,
    pub age_ms: u64,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
}

impl Decision {
    /// Without settings or a table.
    pub fn fallback(policy: Option<Policy>, reason: Reason) -> Decision {
        Decision { policy, reason, table_version: 0, age_ms: 0, prompt_tokens: 0, output_tokens: 0 }
    }
}

/// Chooses among the nodes of the present table.
pub fn choose(
    config: &FilterConfig,
    asked: &Asked,
    now_unix_ms: u64,
    vm: &mut Vm,
) -> (Choice, Decision) {
    let mut choice = Choice { user: asked.user, ..Choice::default() };
    let mut decision = Decision::fallback(Some(config.rules.policy), Reason::NoTable);
    let Some(fleet) = vm.view.fleet() else { return (choice, decision) };
    let roster = fleet.roster();
    choice.roster = Some(Rc::clone(roster));
    (decision.table_version, decision.age_ms) = (fleet.version(), fleet.age_ms(now_unix_ms));
    if let Some(name) = &asked.model {
        choice.model = roster.model(name);
        if choice.model.is_none() && roster.names_models() {
            decision.reason = Reason::UnknownModel;
            return (choice, decision);
        }
    }
    let name = choice.model.map_or("", |model| roster.model_name(model));
    let mut query = vm.view.estimates().query(asked, name);
    query.model = choice.model;
    (decision.prompt_tokens, decision.output_tokens) = (query.prompt_tokens, query.output_tokens);
    choice.work = query.work();
    if decision.age_ms > config.max_table_age_ms {
        decision.reason = Reason::StaleTable;
        return (choice, decision);
    }
    let mut found = Found::default();
    if let Some(profile) = asked.profile.as_ref().filter(|_| config.rules.policy == Policy::EqualCost) {
        let marks = Marks::of(&profile.prefix, name.as_bytes());
        vm.prefix.find(&marks, &mut found);
        query.prefix_key = marks.first_placement();
        query.held = found.held();
        choice.marks = Some(Box::new(marks));
    }
    choice.listed = fleet.pick(&config.rules, &query, &vm.load, &mut vm.rng);
    decision.reason = if let Some(pick) = &choice.listed {
        choice.work = pick.work();
        choice.previous = found.session().filter(|slot| *slot != pick.first());
        Reason::Picked
    } else {
        Reason::NoEligible
    };
    (choice, decision)
}
