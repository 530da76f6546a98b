//! The root context: Envoy's configuration and clock ticks, and the feed role if it is here.
use std::rc::Rc;

use isocost_core::config::FilterConfig;
use isocost_core::lease::{decide, Decision, Lease};
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;

use crate::feed::{Feed, Identity};
use crate::host::{self, Buffer, Level};
use crate::http::Request;
use crate::shared;
use crate::stream::grpc_service;
use crate::vm;

/// How soon a new table is seen.
const TICK_MS: u32 = 20;
/// How soon a context that waits behind a newer one sees that it is gone.
const WAITING_TICK_MS: u32 = 1_000;
/// Observations go out once per interval of the control plane's tables (200 ms).
const TICKS_PER_REPORT: u32 = 10;

pub struct Root {
    context_id: u32,
    /// None until configured, and if Envoy did not hand the configuration over: its requests are
    /// left to the fallback policy, for a refusal would cost them all.
    config: Option<Rc<FilterConfig>>,
    /// None as long as `config` is.
    identity: Option<Identity>,
    /// Some while this context holds the feed role.
    feed: Option<Feed>,
    waiting: bool,
    ticks: u32,
}

impl Root {
    pub fn new(context_id: u32) -> Root {
        Root { context_id, config: None, identity: None, feed: None, waiting: false, ticks: 0 }
    }

    /// The error says what is wrong with the configuration.
    fn configure(&mut self, bytes: &[u8]) -> Result<(), String> {
        let config = FilterConfig::parse(bytes).map_err(|error| error.text().to_owned())?;
        let service = grpc_service(&config.control_plane_cluster)
            .ok_or_else(|| String::from("control_plane_cluster: must be 1 to 125 bytes"))?;
        self.identity = Some(Identity {
            node_id: host::property(b"xds\0node\0id").unwrap_or_default(),
            node_cluster: host::property(b"xds\0node\0cluster").unwrap_or_default(),
            service,
        });
        self.config = Some(Rc::new(config));
        Ok(())
    }

    /// Only the newest of a VM's root contexts works; says whether this one does.
    fn works(&mut self) -> bool {
        let works = vm::with(|vm| vm.works(self.context_id)).unwrap_or(false);
        if works == self.waiting {
            self.waiting = !works;
            let _ = host::set_tick_period(if works { TICK_MS } else { WAITING_TICK_MS });
            self.stop_feed();
        }
        works
    }

    /// Holds the feed role while the lease says so, and says whether any context does.
    fn follow_lease(&mut self, now_ms: u64) -> bool {
        let Some(me) = vm::with(|vm| vm.candidate()) else { return false };
        let Ok((lease, cas)) = shared::lease() else {
            self.stop_feed();
            return false;
        };
        let mine = Lease { holder: me.incarnation, heartbeat_ms: now_ms, serves: me.has_served };
        match decide(lease, &me, now_ms) {
            Decision::Hold if shared::write_lease(mine, cas) => {
                self.feed.get_or_insert_with(Feed::new);
            }
            // Works from the next tick on, when the lease is seen to be held: two VMs may write
            // the first lease at the same time.
            Decision::Take => {
                shared::write_lease(mine, cas);
            }
            Decision::Hold | Decision::Wait => self.stop_feed(),
        }
        lease.is_some_and(|lease| lease.live(now_ms))
    }

    fn stop_feed(&mut self) {
        if let Some(feed) = self.feed.take() {
            feed.stop();
        }
    }
}

impl Context for Root {
    fn on_done(&mut self) -> bool {
        vm::with(|vm| {
            vm.removed(self.context_id);
            if let Some(identity) = &self.identity {
                vm.leave(&identity.node_id);
            }
        });
        true
    }

    fn on_grpc_stream_message(&mut self, token: u32, size: usize) {
        if let Some(feed) = &mut self.feed {
            vm::with(|vm| feed.on_message(token, size, vm));
        }
    }

    fn on_grpc_stream_close(&mut self, token: u32, _status: u32) {
        if let Some(feed) = &mut self.feed {
            vm::with(|vm| feed.on_close(token, vm));
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _size: usize) -> bool {
        let Ok(bytes) = host::buffer(Buffer::PluginConfiguration, 0, usize::MAX) else {
            return true;
        };
        if let Err(reason) = self.configure(&bytes) {
            host::log(Level::Error, &[b"configuration: ", reason.as_bytes()].concat());
            return false;
        }
        vm::with(|vm| vm.configured(self.context_id));
        self.waiting = false;
        // Without ticks there are no tables, and the fallback policy serves.
        let _ = host::set_tick_period(TICK_MS);
        true
    }

    fn on_tick(&mut self) {
        if !self.works() {
            return;
        }
        let Ok(now_ms) = host::monotonic_ms() else { return };
        let feed_lives = self.follow_lease(now_ms);
        self.ticks = self.ticks.wrapping_add(1);
        let report_is_due = self.ticks % TICKS_PER_REPORT == 0;
        let Some(identity) = &self.identity else { return };
        vm::with(|vm| {
            vm.refresh();
            if report_is_due && feed_lives {
                vm.report(&identity.node_id);
            }
            if let Some(feed) = &mut self.feed {
                feed.tick(identity, now_ms, report_is_due, vm);
            }
        });
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Request::new(self.config.clone())))
    }
}
