//! One request: reads it, lists its destinations, follows its answer and reports how it went.
//!
//! Only a request whose body tells something is held up, and only until that is read; an answer
//! never is. All that the end needs is noted before, because headers can no longer be read there.
use std::rc::Rc;

use isocost_core::asking::Asked;
use isocost_core::attempts::judge;
use isocost_core::config::FilterConfig;
use isocost_core::head::Head;
use isocost_core::latency::Timing;
use isocost_core::ledger::{Answer as Answered, Ending, Outcome, Prefill};
use isocost_core::not_found::not_found_body;
use isocost_core::pick::Reason;
use isocost_core::stream::AnswerScanner;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use crate::choice::{choose, Choice, Decision};
use crate::host::{self, Buffer};
use crate::intake::Intake;
use crate::logfmt::{write_decimal, write_decision};
use crate::response::{is_nodes_answer, Flags, Upstream};
use crate::vm::{self, Vm};

const DESTINATION: &[u8] = b"x-isocost-destination";
/// Which node holds the beginning of this session in its cache, if the request goes to another.
const PREVIOUS_NODE: &[u8] = b"x-isocost-previous-node";
/// How often Envoy tries elsewhere, instead of the route's number; Envoy removes it.
const MAX_RETRIES: &[u8] = b"x-envoy-max-retries";
/// Filter state `wasm.isocost`.
const DECISION: &[u8] = b"isocost";

/// Stands for all nodes that are in no roster, and for none: a request that was counted on a node
/// but went elsewhere is moved here. Nodes never have this id.
const NO_NODE: u64 = 0;

pub struct Request {
    /// None: Envoy did not hand it over.
    config: Option<Rc<FilterConfig>>,
    /// Nothing is noted of a request whose beginning has no time: its age would be wrong.
    followed: bool,
    /// Some while its destination is not chosen yet.
    intake: Option<Box<Intake>>,
    /// Its body went on when it was sent to the node: when that had all of it is not known.
    uploads: bool,
    choice: Choice,
    /// The node on which this request is counted as open.
    node: Option<u64>,
    opened_unix_ms: u64,
    timing: Timing,
    answer_body: Option<AnswerScanner>,
    answer: Answer,
    attempts: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// No response headers yet.
    None,
    /// Envoy answers itself, or this filter.
    Local,
    /// The node answers.
    Begun(u16),
    Complete(u16),
}

impl Request {
    pub fn new(config: Option<Rc<FilterConfig>>) -> Request {
        Request {
            config,
            followed: false,
            intake: None,
            uploads: false,
            choice: Choice::default(),
            node: None,
            opened_unix_ms: 0,
            timing: Timing::start(0),
            answer_body: None,
            answer: Answer::None,
            attempts: 0,
        }
    }

    /// Chooses a node, lists it and counts the request there. Pause: it was answered instead.
    fn route(&mut self, intake: Option<Intake>, vm: &mut Vm) -> Action {
        let mut decision = Decision::fallback(None, Reason::HostFailure);
        if let (Some(config), Some(intake), true) = (&self.config, intake, self.followed) {
            let asked = intake.finish();
            decision = choose(config, &asked, self.opened_unix_ms, vm, &mut self.choice);
            if decision.reason == Reason::UnknownModel && !self.refuse(&asked) {
                decision.reason = Reason::HostFailure;
            }
        }
        if decision.reason != Reason::UnknownModel && !self.steer(vm) {
            self.choice.listed = None;
            decision.reason = Reason::HostFailure;
        }
        let mut text = Vec::with_capacity(96);
        write_decision(&decision, &mut text);
        let _ = host::set_property(DECISION, &text);
        vm.metrics.count(decision.reason);
        vm.ledger.decide(decision.reason);
        self.node = self.choice.node();
        if let Some(node) = self.node {
            vm.open(node, self.opened_unix_ms, self.choice.work);
        }
        match decision.reason {
            Reason::UnknownModel => Action::Pause,
            _ => Action::Continue,
        }
    }

    /// False if Envoy did not take the list.
    fn steer(&self, vm: &Vm) -> bool {
        let (Some(pick), Some(fleet)) = (&self.choice.listed, vm.view.fleet()) else {
            let _ = host::remove_request_header(DESTINATION);
            return true;
        };
        let mut text = Vec::with_capacity(96);
        fleet.write_destination(pick, &mut text);
        if host::replace_request_header(DESTINATION, &text).is_err() {
            let _ = host::remove_request_header(DESTINATION);
            return false;
        }
        // Behind a short list Envoy would go on with nodes that may not serve the model.
        let alternates = self.config.as_ref().map_or(0, |config| config.rules.alternates);
        if self.choice.model.is_some() && pick.slots().len() <= alternates {
            text.clear();
            write_decimal(pick.slots().len().saturating_sub(1) as u64, &mut text);
            let _ = host::replace_request_header(MAX_RETRIES, &text);
        }
        let roster = self.choice.roster.as_ref();
        let previous = self.choice.previous.and_then(|slot| roster?.node(slot));
        if let Some(node) = previous {
            let _ = host::replace_request_header(PREVIOUS_NODE, node.address.as_bytes());
        }
        true
    }

    /// Answers that no node has this model; false if Envoy did not take the answer.
    fn refuse(&self, asked: &Asked) -> bool {
        let Some(roster) = &self.choice.roster else { return false };
        let body =
            not_found_body(asked.model.as_deref().unwrap_or_default(), &mut roster.model_names());
        host::answer_json(404, b"isocost_unknown_model", &body).is_ok()
    }

    /// Counts the request where Envoy really sent it, and the nodes that failed before.
    fn settle(&mut self, attempts: Option<u64>, vm: &mut Vm) {
        let upstream = Upstream::read(attempts);
        self.attempts = upstream.attempts;
        let newest = vm.view.fleet().map(|fleet| Rc::clone(fleet.roster()));
        let Some(roster) = self.choice.roster.as_ref().or(newest.as_ref()) else { return };
        let listed = self.choice.listed.as_ref();
        let attempts = judge(roster, listed, upstream.attempts, &upstream.address);
        for slot in attempts.failed {
            if let Some(node) = roster.node(*slot) {
                vm.ledger.failed_attempt(node.id);
            }
        }
        // The node may have come after the request did.
        let used =
            attempts.used.or_else(|| newest.as_ref()?.id_at(&upstream.address)).unwrap_or(NO_NODE);
        if attempts.stale {
            vm.ledger.stale_choice();
            vm.metrics.stale_choices.increment();
        }
        if attempts.unknown > 0 {
            vm.ledger.unknown_attempts(used, attempts.unknown);
        }
        self.move_to(used, vm);
    }

    fn move_to(&mut self, node: u64, vm: &mut Vm) {
        let (opened_ms, work) = (self.opened_unix_ms, self.choice.work);
        match self.node {
            Some(counted) if counted == node => {}
            Some(counted) => vm.reassign(counted, node, opened_ms, work),
            None if node == NO_NODE => return,
            None => vm.open(node, opened_ms, work),
        }
        self.node = Some(node);
    }

    /// The node has begun to answer well: it holds the prompt's beginning from now on.
    fn begun_well(&mut self, vm: &mut Vm) {
        if let Some(node) = self.node {
            let marks = core::mem::take(&mut self.choice.marks);
            vm.place(node, &marks, self.choice.new_tokens);
        }
    }

    fn close(&mut self, vm: &mut Vm) {
        let (status, complete) = match self.answer {
            Answer::None | Answer::Local => (None, false),
            Answer::Begun(status) => (Some(status), false),
            Answer::Complete(status) => (Some(status), true),
        };
        if self.answer == Answer::None {
            self.settle(None, vm);
        }
        let flags = if complete { Flags::NONE } else { Flags::read() };
        if status.is_none() && !flags.client_gone() && !flags.node_failed() {
            // Envoy or another filter refused the request: no node is to blame.
            self.move_to(NO_NODE, vm);
        }
        let Some(node) = self.node else { return };
        let ending = Ending::of(status, complete, flags.client_gone());
        let good = status.is_some_and(|status| status < 400);
        let body = self.answer_body.as_ref();
        let output_tokens = body.and_then(AnswerScanner::output_tokens);
        let finish = body.and_then(AnswerScanner::finish);
        // Its choices come side by side.
        let of_choice = output_tokens.map(|all| all / u64::from(self.choice.choices.max(1)));
        let outcome = Outcome {
            ending,
            first_byte_us: self
                .timing
                .first_byte_us(self.attempts)
                .filter(|_| good && !self.uploads),
            tpot_us: self.timing.tpot_us(of_choice).filter(|_| good && complete),
            total_us: self.timing.total_us().filter(|_| good && complete),
            chunks: self.timing.chunks(),
            output_tokens,
            finish,
        };
        let prefilled = self.timing.had_first_token();
        vm.close(node, self.opened_unix_ms, self.choice.work, prefilled, &outcome);
        if let (Some(output_tokens), true) = (of_choice, good && complete) {
            self.answered(output_tokens, vm);
        }
    }

    /// The time of the request is now: what came before is the client's.
    fn begin(&mut self, vm: &Vm) {
        let now_us = host::monotonic_us().ok();
        if let Some((now_us, unix_ms)) = now_us.and_then(|now| Some((now, vm.unix_ms(now)?))) {
            self.followed = true;
            self.timing = Timing::start(now_us);
            self.opened_unix_ms = unix_ms;
        }
    }

    /// Nothing more of the body is wanted; `end`: there is no more.
    fn end_intake(&mut self, end: bool) -> Action {
        let Some(intake) = self.intake.take() else { return Action::Continue };
        self.uploads = !end;
        let route = |vm: &mut Vm| {
            self.begin(vm);
            self.route(Some(*intake), vm)
        };
        vm::with(route).unwrap_or(Action::Continue)
    }

    /// A piece of the node's answer came.
    fn piece(&mut self, size: usize, vm: &mut Vm) {
        let Answer::Begun(status) = self.answer else { return };
        let now_us = host::monotonic_us().ok();
        let mut output_events = 0;
        if let Some(body) = &mut self.answer_body {
            body.feed(&host::buffer(Buffer::ResponseBody, 0, size).unwrap_or_default());
            output_events = body.output_events();
        }
        let Some(now_us) = now_us else { return };
        let is_first_token = self.timing.chunk(now_us, output_events);
        if let Some(node) = self.node.filter(|_| is_first_token) {
            let prefill = self.prefill().filter(|_| status < 400);
            vm.first_token(node, self.choice.work, prefill);
        }
    }

    /// What the first token teaches of the node that was picked.
    fn prefill(&self) -> Option<Prefill> {
        if self.uploads || self.node != self.choice.node() {
            return None;
        }
        let pending_tokens = self.choice.listed?.pending_tokens()?;
        let first_token_us = self.timing.first_token_us(self.attempts)?;
        Some(Prefill { pending_tokens, first_token_us })
    }

    /// How long the next answer will be is told by those before: each of the choices.
    fn answered(&self, output_tokens: u64, vm: &mut Vm) {
        let roster = self.choice.roster.as_ref();
        let model = roster.zip(self.choice.model).map(|(roster, model)| roster.model_name(model));
        let user = self.choice.user;
        vm.ledger.answered(&Answered { user, model: model.unwrap_or_default(), output_tokens });
    }

    fn complete(&mut self) {
        if let Answer::Begun(status) = self.answer {
            self.answer = Answer::Complete(status);
        }
    }
}

impl Context for Request {
    fn on_done(&mut self) -> bool {
        if self.followed {
            vm::with(|vm| self.close(vm));
        }
        true
    }
}

impl HttpContext for Request {
    fn on_http_request_headers(&mut self, _headers: usize, end: bool) -> Action {
        let intake = self.config.as_ref().map(|config| Intake::begin(config));
        let waits = !end && intake.as_ref().is_some_and(Intake::wants_body);
        let action = vm::with(|vm| {
            vm.serve();
            if waits {
                self.intake = intake.map(Box::new);
                return Action::Pause;
            }
            self.begin(vm);
            self.route(intake, vm)
        });
        #[cfg(feature = "test-trap")]
        crate::test_trap::on_request();
        action.unwrap_or(Action::Continue)
    }

    fn on_http_request_body(&mut self, buffered: usize, end: bool) -> Action {
        let Some(intake) = &mut self.intake else { return Action::Continue };
        let is_enough = intake.take(buffered);
        if is_enough || end {
            self.end_intake(end)
        } else {
            Action::Pause
        }
    }

    fn on_http_request_trailers(&mut self, _trailers: usize) -> Action {
        self.end_intake(true)
    }

    fn on_http_response_headers(&mut self, _headers: usize, end: bool) -> Action {
        // Envoy can replace an answer by one of its own; the first is what the node said.
        if !self.followed || self.answer != Answer::None {
            return Action::Continue;
        }
        let head = Head::read(&host::response_headers().unwrap_or_default());
        self.answer = match head.status {
            Some(status) if is_nodes_answer(&head) => Answer::Begun(status),
            _ => Answer::Local,
        };
        vm::with(|vm| {
            self.settle(head.attempts, vm);
            if let Answer::Begun(..400) = self.answer {
                self.begun_well(vm);
            }
        });
        if let Answer::Begun(_) = self.answer {
            self.timing.answered(head.event_stream);
            self.answer_body = head.has_usage.then(|| AnswerScanner::new(head.event_stream));
        }
        if end {
            self.complete();
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, end: bool) -> Action {
        if size > 0 {
            vm::with(|vm| self.piece(size, vm));
        }
        if end {
            self.complete();
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _trailers: usize) -> Action {
        self.complete();
        Action::Continue
    }
}
