//! The choice for one request: from what it asks for to a list of nodes.
use std::rc::Rc;

use isocost_core::asking::Asked;
use isocost_core::config::FilterConfig;
use isocost_core::marks::Marks;
use isocost_core::pick::{Pick, Policy, Query, Reason};
use isocost_core::prefix_index::Found;
use isocost_core::profile::{Api, Body, Profile};
use isocost_core::prompt::prompt_tokens;
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
    /// What the node's cache takes in with it: what it does not hold of the prompt, and the expected
    /// answer.
    pub new_tokens: u32,
    /// How many answers it asks for; 0 is one.
    pub choices: u32,
    pub model: Option<ModelId>,
    pub user: Option<u64>,
    pub marks: Marks,
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
    /// What was read of its body.
    pub body_bytes: u64,
    /// Estimated.
    pub prompt_tokens: u32,
    pub output_tokens: u32,
}

impl Decision {
    /// Without settings or a table.
    pub fn fallback(policy: Option<Policy>, reason: Reason) -> Decision {
        Decision {
            policy,
            reason,
            table_version: 0,
            age_ms: 0,
            body_bytes: 0,
            prompt_tokens: 0,
            output_tokens: 0,
        }
    }
}

/// Of an answer in one piece nobody sees when its prompt was read, which is a small part of its time.
/// So for all of that time this part of the prompt counts as pending: right for many such requests
/// together, and no node looks full of prompts that were read long ago.
const UNSEEN_PREFILL: u32 = 4;

/// If the body's end is not known, neither is whether it asks for a stream.
fn answers_at_once(profile: &Profile) -> bool {
    !profile.stream.unwrap_or(profile.body == Body::Partial)
}

/// Chooses among the nodes of the present table; `choice` is an empty one.
pub fn choose(
    config: &FilterConfig,
    asked: &Asked,
    now_unix_ms: u64,
    vm: &mut Vm,
    choice: &mut Choice,
) -> Decision {
    choice.user = asked.user;
    let mut decision = Decision::fallback(Some(config.rules.policy), Reason::NoTable);
    decision.body_bytes = asked.read_bytes;
    let Some(fleet) = vm.view.fleet() else { return decision };
    let roster = fleet.roster();
    choice.roster = Some(Rc::clone(roster));
    (decision.table_version, decision.age_ms) = (fleet.version(), fleet.age_ms(now_unix_ms));
    if asked.names_two_models(roster) {
        vm.metrics.model_mismatches.increment();
    }
    if let Some(name) = &asked.model {
        choice.model = roster.model(name);
        if choice.model.is_none() && roster.names_models() {
            decision.reason = Reason::UnknownModel;
            return decision;
        }
    }
    let model = choice.model.map_or("", |model| roster.model_name(model));
    let estimates = vm.view.estimates();
    let coefficients = estimates.coefficients(model);
    let profile = asked.profile.as_ref();
    decision.prompt_tokens =
        prompt_tokens(profile, coefficients, asked.read_bytes, asked.content_length);
    if asked.api != Api::Embeddings && decision.prompt_tokens > 0 {
        let most = profile.and_then(|profile| profile.max_tokens);
        let choices = profile.and_then(|profile| profile.choices);
        decision.output_tokens = estimates.output_tokens(asked.user, model, most, choices);
        choice.choices = choices.unwrap_or(1);
    }
    let mut marks = Marks::default();
    let mut found = Found::default();
    if let Some(profile) = profile.filter(|_| config.rules.policy == Policy::EqualCost) {
        let cache = choice.model.map_or("", |model| roster.cache_name(model));
        marks = Marks::new(profile, cache.as_bytes(), coefficients);
        found = vm.prefix.find(&marks, &|slot| fleet.kv_capacity_tokens(slot));
    }
    let query = Query {
        model: choice.model,
        prompt_tokens: decision.prompt_tokens,
        output_tokens: decision.output_tokens,
        // A session without a user belongs together as well.
        user: asked.user.or(profile.and_then(|profile| profile.cache_key)),
        prefix_key: marks.prefix_key(),
        held: found.all(),
    };
    choice.work = query.work();
    if decision.age_ms > config.max_table_age_ms {
        decision.reason = Reason::StaleTable;
        return decision;
    }
    choice.listed = fleet.pick(&config.rules, &query, &vm.load, &mut vm.rng);
    decision.reason = Reason::NoEligible;
    if let Some(pick) = &choice.listed {
        decision.reason = Reason::Picked;
        choice.work = pick.work();
        let of_session = found.all().first().filter(|held| marks.is_of_session(held.tokens));
        let own = found.all().iter().find(|held| held.slot == pick.first());
        let more = of_session.filter(|held| own.is_none_or(|own| own.tokens < held.tokens));
        choice.previous = more.map(|held| held.slot);
    }
    choice.new_tokens = choice.work.prompt_tokens.saturating_add(decision.output_tokens);
    if decision.output_tokens > 0 && profile.is_some_and(answers_at_once) {
        choice.work.prompt_tokens /= UNSEEN_PREFILL;
    }
    choice.marks = marks;
    decision
}
