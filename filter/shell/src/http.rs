//! One request: lists its destinations, follows its answer and reports how it went.
//!
//! Nothing is held up or buffered. All that the end needs is noted before, because headers can no
//! longer be read there.
use std::rc::Rc;

use isocost_core::attempts::judge;
use isocost_core::config::FilterConfig;
use isocost_core::head::Head;
use isocost_core::latency::Timing;
use isocost_core::ledger::{Ending, Outcome, Prefill};
use isocost_core::pick::{Pick, Reason};
use isocost_core::roster::Roster;
use isocost_core::stream::AnswerScanner;
use isocost_core::work::Work;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use crate::host::{self, Buffer};
use crate::logfmt::{write_decision, Decision};
use crate::response::{is_nodes_answer, Flags, Upstream};
use crate::vm::{self, Vm};

const DESTINATION: &[u8] = b"x-isocost-destination";
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
    /// The roster that `listed` refers to.
    roster: Option<Rc<Roster>>,
    listed: Option<Pick>,
    /// The node on which this request is counted as open.
    node: Option<u64>,
    opened_unix_ms: u64,
    /// What it was expected to weigh when it was picked.
    work: Work,
    /// Of the picked node then, its own included.
    pending_tokens: u32,
    timing: Timing,
    scanner: Option<AnswerScanner>,
    answer: Answer,
    attempts: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// No response headers yet.
    None,
    /// Envoy answers itself.
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
            roster: None,
            listed: None,
            node: None,
            opened_unix_ms: 0,
            work: Work::default(),
            pending_tokens: 0,
            timing: Timing::start(0),
            scanner: None,
            answer: Answer::None,
            attempts: 0,
        }
    }

    fn route(&mut self, vm: &mut Vm) {
        let mut text = Vec::with_capacity(96);
        let mut decision = self.decide(vm, &mut text);
        if self.listed.is_some() && host::replace_request_header(DESTINATION, &text).is_err() {
            self.listed = None;
            decision.reason = Reason::HostFailure;
        }
        if self.listed.is_none() {
            let _ = host::remove_request_header(DESTINATION);
        }
        text.clear();
        write_decision(&decision, &mut text);
        let _ = host::set_property(DECISION, &text);
        vm.metrics.count(decision.reason);
        vm.ledger.decide(decision.reason);
        self.node = self.listed_node();
        if let Some(node) = self.node {
            vm.ledger.open(node, self.opened_unix_ms, self.work);
        }
    }

    /// Lists the nodes, writes their addresses to `text`, and says why.
    fn decide(&mut self, vm: &mut Vm, text: &mut Vec<u8>) -> Decision {
        let Some(config) = self.config.as_ref().filter(|_| self.followed) else {
            return Decision::fallback(Reason::HostFailure);
        };
        let Some(fleet) = vm.view.fleet() else {
            return Decision { policy: Some(config.policy), ..Decision::fallback(Reason::NoTable) };
        };
        self.roster = Some(Rc::clone(fleet.roster()));
        let age_ms = fleet.age_ms(self.opened_unix_ms);
        let reason = if age_ms > config.max_table_age_ms {
            Reason::StaleTable
        } else {
            self.listed = fleet.pick(config.policy, config.alternates, &mut vm.rng);
            match &self.listed {
                Some(pick) => {
                    fleet.write_destination(pick, text);
                    Reason::Picked
                }
                None => Reason::NoEligible,
            }
        };
        Decision { policy: Some(config.policy), reason, table_version: fleet.version(), age_ms }
    }

    fn listed_node(&self) -> Option<u64> {
        let slot = self.listed?.first();
        self.roster.as_ref()?.node(slot).map(|node| node.id)
    }

    /// Counts the request where Envoy really sent it, and the nodes that failed before.
    fn settle(&mut self, vm: &mut Vm) {
        let upstream = Upstream::read();
        self.attempts = upstream.attempts;
        let newest = vm.view.fleet().map(|fleet| Rc::clone(fleet.roster()));
        let Some(roster) = self.roster.as_ref().or(newest.as_ref()) else { return };
        let attempts = judge(roster, self.listed.as_ref(), upstream.attempts, &upstream.address);
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
        match self.node {
            Some(counted) if counted == node => {}
            Some(counted) => {
                vm.ledger.reassign(counted, node, self.opened_unix_ms, self.work);
            }
            None if node == NO_NODE => return,
            None => vm.ledger.open(node, self.opened_unix_ms, self.work),
        }
        self.node = Some(node);
    }

    fn close(&mut self, vm: &mut Vm) {
        let (status, complete) = match self.answer {
            Answer::None | Answer::Local => (None, false),
            Answer::Begun(status) => (Some(status), false),
            Answer::Complete(status) => (Some(status), true),
        };
        if self.answer == Answer::None {
            self.settle(vm);
        }
        let flags = if complete { Flags::NONE } else { Flags::read() };
        if status.is_none() && !flags.client_gone() && !flags.node_failed() {
            // Envoy or another filter refused the request: no node is to blame.
            self.move_to(NO_NODE, vm);
        }
        let Some(node) = self.node else { return };
        let ending = Ending::of(status, complete, flags.client_gone());
        let good = status.is_some_and(|status| status < 400);
        let output_tokens = self.scanner.as_ref().and_then(AnswerScanner::output_tokens);
        vm.ledger.close(
            node,
            self.opened_unix_ms,
            self.work,
            self.timing.had_first_token(),
            &Outcome {
                ending,
                first_byte_us: self.timing.first_byte_us(self.attempts).filter(|_| good),
                tpot_us: self.timing.tpot_us(output_tokens).filter(|_| good),
                total_us: self.timing.total_us().filter(|_| good && complete),
                chunks: self.timing.chunks(),
                output_tokens,
                finish: self.scanner.as_ref().and_then(AnswerScanner::finish),
            },
        );
    }

    /// A piece of the node's answer came.
    fn piece(&mut self, size: usize, vm: &mut Vm) {
        let Answer::Begun(status) = self.answer else { return };
        let now_us = host::monotonic_us().ok();
        if let Some(node) = self.node {
            vm.ledger.progress(node);
        }
        let mut output_events = 0;
        if let Some(scanner) = &mut self.scanner {
            scanner.feed(&host::buffer(Buffer::ResponseBody, size).unwrap_or_default());
            output_events = scanner.output_events();
        }
        let Some(now_us) = now_us else { return };
        let is_first_token = self.timing.chunk(now_us, output_events);
        if let Some(node) = self.node.filter(|_| is_first_token) {
            let first_token_us = self.timing.first_token_us(self.attempts);
            let prefill = first_token_us.filter(|_| status < 400).map(|first_token_us| Prefill {
                pending_tokens: self.pending_tokens,
                first_token_us,
            });
            vm.ledger.first_token(node, self.work, prefill);
        }
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
    fn on_http_request_headers(&mut self, _headers: usize, _end: bool) -> Action {
        let now_us = host::monotonic_us().ok();
        vm::with(|vm| {
            vm.serve();
            if let Some((now_us, unix_ms)) = now_us.and_then(|now| Some((now, vm.unix_ms(now)?))) {
                self.followed = true;
                self.timing = Timing::start(now_us);
                self.opened_unix_ms = unix_ms;
            }
            self.route(vm);
        });
        #[cfg(feature = "test-trap")]
        crate::test_trap::on_request();
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _headers: usize, end: bool) -> Action {
        // Envoy can replace an answer by one of its own; the first is what the node said.
        if !self.followed || self.answer != Answer::None {
            return Action::Continue;
        }
        vm::with(|vm| self.settle(vm));
        let head = Head::read(&host::response_headers().unwrap_or_default());
        self.answer = match head.status {
            Some(status) if is_nodes_answer(&head) => Answer::Begun(status),
            _ => Answer::Local,
        };
        if let Answer::Begun(_) = self.answer {
            self.timing.answered(head.event_stream);
            self.scanner = head.has_usage.then(|| AnswerScanner::new(head.event_stream));
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
