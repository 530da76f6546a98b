//! The feed role: one root context per Envoy talks to the control plane for all its VMs. It is an
//! xDS client for rosters and tables, and carries the observations back.
use isocost_core::backlog::Backlog;
use isocost_core::xds::{NodeIdentity, Response, Subscription, ROSTER_TYPE, TABLE_TYPE};

use crate::host::{self, Buffer, Level, Queue, Stream};
use crate::publish::Publisher;
use crate::shared;
use crate::stream::Link;
use crate::vm::Vm;

/// More would only delay the tick; at five batches a second per worker it is never reached.
const MAX_PER_TICK: usize = 64;

/// A control plane that was silent this long (fifteen tables) reads no reports either. Envoy would
/// keep them for it without bound, so they wait here, where they have one.
const SILENT_MS: u64 = 3_000;

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
    /// When it spoke last.
    heard_ms: u64,
    observations: Link,
    roster: Subscription,
    table: Subscription,
    publisher: Publisher,
    /// The last resource was refused: the log says it once.
    refusing: bool,
    backlog: Backlog,
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
            publisher: Publisher::default(),
            refusing: false,
            backlog: Backlog::default(),
        }
    }

    pub fn tick(&mut self, identity: &Identity, now_ms: u64, vm: &mut Vm) {
        #[cfg(feature = "test-trap")]
        crate::test_trap::on_feed_tick();
        match self.ads.open(&identity.service, now_ms, &mut vm.rng) {
            Some(Ok(stream)) => {
                vm.metrics.streams_opened.increment();
                self.subscribe(identity, stream);
            }
            Some(Err(_)) if !self.homeless => {
                self.homeless = true;
                host::log(Level::Warn, b"Envoy has no cluster for the control plane");
            }
            _ => {}
        }
        self.drain_queue();
        // Nothing is sent before the control plane has shown that it is there: what is written to
        // a stream that then fails is lost.
        if self.answered && now_ms.saturating_sub(self.heard_ms) <= SILENT_MS {
            let _ = self.observations.open(&identity.service, now_ms, &mut vm.rng);
            self.report();
        }
    }

    /// Shows the age of what was published; also while nothing new comes.
    pub fn show_age(&self, now_unix_ms: u64, vm: &Vm) {
        if let Some(published) = self.publisher.published() {
            vm.metrics.table_version.record(published.table_version);
            vm.metrics.table_age_ms.record(now_unix_ms.saturating_sub(published.built_at_unix_ms));
        }
    }

    fn subscribe(&mut self, identity: &Identity, stream: Stream) {
        let node = NodeIdentity { id: &identity.node_id, cluster: &identity.node_cluster };
        for subscription in [&mut self.roster, &mut self.table] {
            let mut request = Vec::new();
            subscription.subscribe(&node, &mut request);
            // A failure shows as the stream's close.
            let _ = stream.send(&request);
        }
    }

    /// Also when nobody listens: Envoy does not bound the queue.
    fn drain_queue(&mut self) {
        let Some(queue) = self.queue else { return };
        for _ in 0..MAX_PER_TICK {
            let Ok(batch) = queue.pop() else { break };
            self.backlog.push(batch);
        }
    }

    fn report(&mut self) {
        let Some(stream) = self.observations.stream() else { return };
        if !self.backlog.is_empty() {
            let _ = stream.send(&self.backlog.take_report());
        }
    }

    pub fn on_message(&mut self, token: u32, size: usize, vm: &mut Vm) {
        let Some(stream) = self.ads.stream().filter(|stream| stream.is(token)) else { return };
        let Ok(bytes) = host::buffer(Buffer::GrpcMessage, size) else { return };
        self.heard_ms = host::monotonic_ms();
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
        if !reply.is_empty() {
            let _ = stream.send(&reply);
        }
    }

    /// Takes a response in and writes its ACK or NACK.
    fn accept(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Result<(), &'static str> {
        let response = Response::decode(bytes).map_err(|error| error.text())?;
        let (subscription, verdict) = if response.type_url == ROSTER_TYPE.as_bytes() {
            (&mut self.roster, response.resource.map(|roster| self.publisher.accept_roster(roster)))
        } else if response.type_url == TABLE_TYPE.as_bytes() {
            (&mut self.table, response.resource.map(|table| self.publisher.accept_table(table)))
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

    pub fn on_close(&mut self, token: u32, now_ms: u64, vm: &mut Vm) {
        if self.ads.is(token) {
            self.ads.lost(now_ms, &mut vm.rng);
            if self.answered {
                self.answered = false;
                vm.metrics.feed_connected.record(0);
                host::log(Level::Warn, b"the control plane's stream was closed");
            }
        } else if self.observations.is(token) {
            self.observations.lost(now_ms, &mut vm.rng);
        }
    }

    /// The lease is lost, or a newer configuration works: another context takes over.
    pub fn stop(mut self) {
        self.ads.cancel();
        self.observations.cancel();
    }
}
