//! A gRPC stream to the control plane that comes back after a loss.
use isocost_core::{random, Rng};

use crate::host::{Result, Stream};

/// The first retry comes at once: most losses are a restarted control plane.
const FIRST_DELAY_MS: u64 = 200;
/// A control plane that was away must be found again at once: within a second of its return the
/// tables are fresh, and the agents' first reports take their part of that.
const MAX_DELAY_MS: u64 = 400;
/// A stream that lived this long was a working one: its loss starts the delays anew.
const WORKING_MS: u64 = 5_000;

pub struct Link {
    service: &'static str,
    method: &'static str,
    stream: Option<Stream>,
    opened_ms: u64,
    retry_ms: u64,
    delay_ms: u64,
}

impl Link {
    pub fn new(service: &'static str, method: &'static str) -> Link {
        Link { service, method, stream: None, opened_ms: 0, retry_ms: 0, delay_ms: 0 }
    }

    pub fn stream(&self) -> Option<Stream> {
        self.stream
    }

    pub fn is(&self, token: u32) -> bool {
        self.stream.is_some_and(|stream| stream.is(token))
    }

    /// Opens the stream if it is closed and its time has come; else None.
    pub fn open(&mut self, service: &str, now_ms: u64, rng: &mut Rng) -> Option<Result<Stream>> {
        if self.stream.is_some() || now_ms < self.retry_ms {
            return None;
        }
        self.opened_ms = now_ms;
        let opened = Stream::open(service, self.service, self.method);
        match opened {
            Ok(stream) => self.stream = Some(stream),
            Err(_) => self.lost(now_ms, rng),
        }
        Some(opened)
    }

    /// Ends the stream on this side, because it cannot be used.
    pub fn give_up(&mut self, now_ms: u64, rng: &mut Rng) {
        self.cancel();
        self.lost(now_ms, rng);
    }

    /// The stream is gone: sets the time of the next try.
    pub fn lost(&mut self, now_ms: u64, rng: &mut Rng) {
        self.stream = None;
        if now_ms.saturating_sub(self.opened_ms) >= WORKING_MS {
            self.delay_ms = 0;
        }
        // Between half of the delay and the whole: Envoys that lost the same server spread out.
        self.retry_ms = now_ms + self.delay_ms / 2 + random(rng) % (self.delay_ms / 2 + 1);
        self.delay_ms = (self.delay_ms * 2).clamp(FIRST_DELAY_MS, MAX_DELAY_MS);
    }

    pub fn cancel(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.cancel();
        }
    }
}

/// The service that Envoy knows under this cluster's name.
///
/// Envoy first tries to read the bytes as an `envoy.config.core.v3.GrpcService` and takes them for
/// a cluster's name only if that fails, which it does not for every name. So this is that message:
/// `envoy_grpc { cluster_name }`.
pub fn grpc_service(cluster: &str) -> Option<String> {
    const FIELD_1: char = '\n';
    let inner = u8::try_from(cluster.len()).ok().filter(|len| *len < 126)?;
    let mut message = String::from(FIELD_1);
    message.push(char::from(inner + 2));
    message.push(FIELD_1);
    message.push(char::from(inner));
    message.push_str(cluster);
    Some(message)
}
