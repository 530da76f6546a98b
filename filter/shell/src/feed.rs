//! The feed role: one root context per Envoy talks to the control plane for all its VMs. It is an
//! xDS client for rosters, tables and estimates, and carries the observations back.
use isocost_core::backlog::Backlog;
use isocost_core::workers::Workers;
use isocost_core::xds::{
    NodeIdentity, Response, Subscription, ESTIMATES_TYPE, ROSTER_TYPE, TABLE_TYPE,
};

use crate::host::{self, Buffer, Level, Queue, Stream};
use crate::publish::{self, Publisher};
use crate::shared;
use crate::stream::Link;
use crate::vm::Vm;

/// More would only delay the tick; at five batches a second per worker it is never reached.
const MAX_PER_TICK: usize = 64;

/// A control plane that was silent this long (fifteen tables) reads no reports either. Envoy would
/// keep them for it without bound, so they wait here, where they have one.
const SILENT_MS: u64 = 3_000;

/// A stream on which nothing has come for this long (fifty tables) hangs, however open it looks.
const HUNG_MS: u64 = 10_000;

/// Who this Envoy is and where its control plane is; fixed by the configuration.
pub struct Identity {
    pub node_id: Vec<u8>,
    pub node_cluster: Vec<u8>,
    /// The control plane, as Envoy's gRPC calls name it.
    pub service: String,
}

pub struct Feed {
    queue: Option<Queue>,
    ads: Link,
    /// No stream could be opened at all: the log says it once.
    homeless: bool,
    /// The control plane has answered on the present ADS stream.
    answered: bool,
    /// When it spoke last on that stream, or when that was opened.
    heard_ms: u64,
    observations: Link,
    roster: Subscription,
    table: Subscription,
    estimates: Subscription,
    publisher: Publisher,
    /// The last resource was refused: the log says it once.
    refusing: bool,
    backlog: Backlog,
    workers: Workers,
}

impl Feed {
    pub fn new() -> Feed {
        host::log(Level::Info, b"takes the feed role");
        Feed {
            queue: shared::take_observations_queue().ok(),
            ads: Link::new(
                "envoy.service.discovery.v3.AggregatedDiscoveryService",
                "StreamAggregatedResources",
            ),
            homeless: false,
            answered: false,
            heard_ms: 0,
            observations: Link::new("isocost.v1.Observations", "Report"),
            roster: Subscription::new(ROSTER_TYPE),
            table: Subscription::new(TABLE_TYPE),
            estimates: Subscription::new(ESTIMATES_TYPE),
            publisher: Publisher::default(),
            refusing: false,
            backlog: Backlog::default(),
            workers: Workers::default(),
        }
    }

    /// `report_is_due`: once per interval of the control plane's tables.
    pub fn tick(&mut self, identity: &Identity, now_ms: u64, report_is_due: bool, vm: &mut Vm) {
        #[cfg(feature = "test-trap")]
        crate::test_trap::on_feed_tick();
        if self.ads.stream().is_some() && now_ms.saturating_sub(self.heard_ms) > HUNG_MS {
            self.give_up(vm);
        }
        match self.ads.open(&identity.service, now_ms, &mut vm.rng) {
            Some(Ok(stream)) => {
                vm.metrics.streams_opened.increment();
                self.heard_ms = now_ms;
                if !self.subscribe(identity, stream) {
                    self.ads.give_up(now_ms, &mut vm.rng);
                }
            }
            Some(Err(_)) if !self.homeless => {
                self.homeless = true;
                host::log(Level::Warn, b"Envoy has no cluster for the control plane");
            }
            _ => {}
        }
        self.drain_queue(now_ms);
        // Nothing is sent before the control plane has shown that it is there: what is written to
        // a stream that then fails is lost.
        if self.answered && now_ms.saturating_sub(self.heard_ms) <= SILENT_MS {
            let _ = self.observations.open(&identity.service, now_ms, &mut vm.rng);
            self.report(identity, now_ms, report_is_due);
        }
        if report_is_due {
            self.show_age(vm);
        }
    }

    /// Shows the age of what was published; also while nothing new comes.
    fn show_age(&self, vm: &Vm) {
        if let (Some(published), Ok(now_unix_ms)) =
            (self.publisher.published(), host::now_unix_ms())
        {
            vm.metrics.table_version.record(published.table_version);
            vm.metrics.table_age_ms.record(now_unix_ms.saturating_sub(published.built_at_unix_ms));
        }
    }

    /// False if the stream does not carry it.
    fn subscribe(&mut self, identity: &Identity, stream: Stream) -> bool {
        let node = NodeIdentity { id: &identity.node_id, cluster: &identity.node_cluster };
        [&mut self.roster, &mut self.table, &mut self.estimates].into_iter().all(|subscription| {
            let mut request = Vec::new();
            subscription.subscribe(&node, &mut request);
            stream.send(&request).is_ok()
        })
    }

    /// Also when nobody listens: Envoy does not bound the queue.
    fn drain_queue(&mut self, now_ms: u64) {
        let Some(queue) = self.queue else { return };
        for _ in 0..MAX_PER_TICK {
            let Ok(batch) = queue.pop() else { break };
            self.workers.heard(&batch, now_ms);
            self.backlog.push(batch);
        }
    }

    /// Batches go out at once; how many VMs are alive is told with them, and also when none is left
    /// that could hand one over.
    fn report(&mut self, identity: &Identity, now_ms: u64, due: bool) {
        let Some(stream) = self.observations.stream() else { return };
        if due || !self.backlog.is_empty() {
            let mut report = self.backlog.take_report();
            self.workers.report(&identity.node_id, now_ms, &mut report);
            let _ = stream.send(&report);
        }
    }

    pub fn on_message(&mut self, token: u32, size: usize, vm: &mut Vm) {
        let Some(stream) = self.ads.stream().filter(|stream| stream.is(token)) else { return };
        let Ok(bytes) = host::buffer(Buffer::GrpcMessage, 0, size) else {
            // It can be neither taken nor refused, so the control plane would wait for its answer.
            return self.give_up(vm);
        };
        if let Ok(now_ms) = host::monotonic_ms() {
            self.heard_ms = now_ms;
        }
        if !self.answered {
            self.answered = true;
            vm.metrics.feed_connected.record(1);
        }
        let mut reply = Vec::new();
        let verdict = self.accept(&bytes, &mut reply);
        if let Err(reason) = verdict {
            vm.metrics.nacks.increment();
            if !self.refusing {
                host::log(Level::Warn, &[b"refused a resource: ", reason.as_bytes()].concat());
            }
        }
        self.refusing = verdict.is_err();
        if !reply.is_empty() && stream.send(&reply).is_err() {
            self.give_up(vm);
        }
    }

    /// Takes a response in and writes its ACK or NACK.
    fn accept(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Result<(), &'static str> {
        let response = Response::decode(bytes).map_err(|error| error.text())?;
        let (subscription, verdict) = if response.type_url == ROSTER_TYPE.as_bytes() {
            (&mut self.roster, response.resource.map(|roster| self.publisher.accept_roster(roster)))
        } else if response.type_url == TABLE_TYPE.as_bytes() {
            (&mut self.table, response.resource.map(|table| self.publisher.accept_table(table)))
        } else if response.type_url == ESTIMATES_TYPE.as_bytes() {
            (&mut self.estimates, response.resource.map(publish::accept_estimates))
        } else {
            return Err("a type that was not asked for");
        };
        // No resource: the control plane knows none yet. The last good one stays and ages.
        let verdict = verdict.unwrap_or(Ok(()));
        match verdict {
            Ok(()) => subscription.ack(&response, reply),
            Err(reason) => subscription.nack(&response, reason, reply),
        }
        verdict
    }

    pub fn on_close(&mut self, token: u32, vm: &mut Vm) {
        if self.ads.is(token) {
            self.disconnected(vm);
        } else if self.observations.is(token) {
            self.observations.lost(clock_ms(), &mut vm.rng);
        }
    }

    fn give_up(&mut self, vm: &mut Vm) {
        self.ads.cancel();
        self.disconnected(vm);
    }

    fn disconnected(&mut self, vm: &mut Vm) {
        self.ads.lost(clock_ms(), &mut vm.rng);
        if self.answered {
            self.answered = false;
            vm.metrics.feed_connected.record(0);
            host::log(Level::Warn, b"the control plane's stream was closed");
        }
    }

    /// The lease is lost, or a newer configuration works: another context takes over.
    pub fn stop(mut self) {
        self.ads.cancel();
        self.observations.cancel();
    }
}

/// Without a clock the next try is at the next tick.
fn clock_ms() -> u64 {
    host::monotonic_ms().unwrap_or(0)
}
