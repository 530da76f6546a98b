//! What outlives a plugin configuration: one VM serves several root contexts, the newest of which
//! works; counts of open requests must not be lost when it changes.
use std::cell::RefCell;

use isocost_core::lease::Candidate;
use isocost_core::ledger::{BatchHeader, Ledger, Outcome, Prefill};
use isocost_core::load::Load;
use isocost_core::marks::Marks;
use isocost_core::prefix_index::PrefixIndex;
use isocost_core::work::Work;
use isocost_core::Rng;

use crate::host;
use crate::metrics::Metrics;
use crate::shared;
use crate::view::View;

pub struct Vm {
    /// One life of this VM: a reloaded one has another.
    incarnation: u64,
    started_ms: u64,
    has_served: bool,
    /// The wall clock's lead over the monotonic one; None while it is not known. A request asks for
    /// one time only, because a clock is among the dearest things to ask Envoy for.
    unix_lead_ms: Option<u64>,
    /// The root contexts that live, the one that was configured last at the end.
    roots: Vec<u32>,
    pub ledger: Ledger,
    /// What the requests of this VM are to the nodes, since the table at hand was made.
    pub load: Load,
    pub prefix: PrefixIndex,
    pub view: View,
    pub rng: Rng,
    pub metrics: Metrics,
    batches: u64,
}

thread_local! {
    static VM: RefCell<Option<Vm>> = const { RefCell::new(None) };
}

/// Runs `action` on this VM's state. None only if called from within itself.
pub fn with<R>(action: impl FnOnce(&mut Vm) -> R) -> Option<R> {
    VM.with(|cell| {
        let mut vm = cell.try_borrow_mut().ok()?;
        Some(action(vm.get_or_insert_with(Vm::new)))
    })
}

impl Vm {
    fn new() -> Vm {
        // Two VMs must not be one, so without random numbers the time tells them apart.
        let clock_us = host::monotonic_us().unwrap_or(0);
        let random = || host::random_u64().unwrap_or(clock_us);
        let incarnation = random();
        Vm {
            incarnation,
            started_ms: clock_us / 1_000,
            has_served: false,
            unix_lead_ms: None,
            roots: Vec::new(),
            ledger: Ledger::new(),
            load: Load::new(incarnation),
            prefix: PrefixIndex::new(),
            view: View::default(),
            rng: Rng::with_seed(random()),
            metrics: Metrics::define(),
            batches: 0,
        }
    }

    /// A root context was configured: it works from now on, the others wait.
    pub fn configured(&mut self, root: u32) {
        self.removed(root);
        self.roots.push(root);
    }

    pub fn removed(&mut self, root: u32) {
        self.roots.retain(|other| *other != root);
    }

    pub fn works(&self, root: u32) -> bool {
        self.roots.last() == Some(&root)
    }

    pub fn candidate(&self) -> Candidate {
        Candidate {
            incarnation: self.incarnation,
            has_served: self.has_served,
            started_ms: self.started_ms,
        }
    }

    /// A request has come. The main thread's VM never gets here, so it never decodes a table for
    /// picking; a worker's first request finds the table at once.
    pub fn serve(&mut self) {
        if !self.has_served {
            self.has_served = true;
            self.refresh();
        }
    }

    /// The tick's work of a VM that has requests.
    pub fn refresh(&mut self) {
        if self.has_served {
            if let (Ok(unix_ms), Ok(monotonic_ms)) = (host::now_unix_ms(), host::monotonic_ms()) {
                self.unix_lead_ms = Some(unix_ms.wrapping_sub(monotonic_ms));
            }
            if self.view.refresh(&mut self.prefix) {
                if let Some(fleet) = self.view.fleet() {
                    self.load.rebase(fleet);
                }
            }
        }
    }

    /// A request was sent to the node.
    pub fn open(&mut self, node: u64, opened_ms: u64, work: Work) {
        self.ledger.open(node, opened_ms, work);
        self.load.opened(node, work);
    }

    /// An open request turned out to be on another node, before its first token.
    pub fn reassign(&mut self, from: u64, to: u64, opened_ms: u64, work: Work) {
        self.ledger.reassign(from, to, opened_ms, work);
        self.load.moved(from, to, work);
    }

    pub fn first_token(&mut self, node: u64, work: Work, prefill: Option<Prefill>) {
        self.ledger.first_token(node, work, prefill);
        self.load.first_token(node, work);
    }

    /// `prefilled`: its first token was there.
    pub fn close(
        &mut self,
        node: u64,
        opened_ms: u64,
        work: Work,
        prefilled: bool,
        outcome: &Outcome,
    ) {
        self.ledger.close(node, opened_ms, work, prefilled, outcome);
        self.load.closed(node, work, prefilled);
    }

    /// The node holds the beginning of this prompt from now on.
    /// `new_tokens`: what its cache takes in with the request.
    pub fn place(&mut self, node: u64, marks: &Marks, new_tokens: u32) {
        if marks.is_empty() {
            return;
        }
        self.ledger.placed(node, marks.all().iter().map(|mark| mark.hash));
        let slot = self.view.fleet().and_then(|fleet| fleet.roster().slot_of(node));
        if let Some(slot) = slot {
            // What the others send there fills the cache as well.
            let new_tokens = new_tokens as f32 * self.load.fleet_factor();
            self.prefix.insert(marks, slot, new_tokens as u32);
        }
    }

    /// The wall clock at this monotonic time, as of the last tick; None if it was never read.
    pub fn unix_ms(&self, monotonic_us: u64) -> Option<u64> {
        Some(self.unix_lead_ms?.wrapping_add(monotonic_us / 1_000))
    }

    /// The last root context is gone, and soon the VM: no feed must take it for a dead one.
    pub fn leave(&mut self, envoy: &[u8]) {
        if self.roots.is_empty() {
            self.hand_over(envoy, true);
        }
    }

    /// Hands the feed what was seen since the last batch. Call it only while a feed is alive:
    /// otherwise the queue would grow; what is not handed over stays in the ledger.
    pub fn report(&mut self, envoy: &[u8]) {
        self.hand_over(envoy, false);
    }

    fn hand_over(&mut self, envoy: &[u8], leaving: bool) {
        if !self.has_served {
            return;
        }
        let Ok(now_unix_ms) = host::now_unix_ms() else { return };
        let table_version = match self.view.fleet() {
            Some(fleet) => {
                self.metrics.table_version.record(fleet.version());
                self.metrics.table_age_ms.record(fleet.age_ms(now_unix_ms));
                fleet.version()
            }
            None => 0,
        };
        let Ok(queue) = shared::find_observations_queue() else { return };
        self.batches += 1;
        let header = BatchHeader {
            envoy,
            incarnation: self.incarnation,
            sequence: self.batches,
            table_version,
            leaving,
        };
        let mut batch = Vec::new();
        self.ledger.encode_batch(&header, now_unix_ms, &mut batch);
        self.load.batch(self.batches);
        let _ = queue.push(&batch);
    }
}
