//! What outlives a plugin configuration: one VM serves several root contexts, the newest of which
//! works; counts of open requests must not be lost when it changes.
use std::cell::RefCell;

use isocost_core::lease::Candidate;
use isocost_core::ledger::{BatchHeader, Ledger};
use isocost_core::load::Load;
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
    pub load: Load,
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
            self.view.refresh();
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
        let _ = queue.push(&batch);
    }
}
