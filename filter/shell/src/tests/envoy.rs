//! One Envoy with one VM and its control plane: calls the filter's exports as the real one does.

use std::thread;

use isocost_core::wire::{put_bytes, put_fixed64, put_string, Reader, Value};
use isocost_core::xds::{ROSTER_TYPE, TABLE_TYPE};

use super::exports::*;
use super::fake::{world, Fate, Stream};

/// Methods of the streams.
pub const ADS: &str = "StreamAggregatedResources";
pub const REPORTS: &str = "Report";
/// Both nodes of the roster.
pub const NODES: [&str; 2] = ["10.0.0.1:8000", "10.0.0.2:8000"];
const ROSTER_VERSION: u64 = 11;
pub const TICK_MS: u64 = 20;
const TICKS_PER_TABLE: u64 = 10;

/// What became of a request at its headers.
#[derive(Debug, PartialEq)]
pub struct Routed {
    /// The list that steers Envoy; None leaves the request to the fallback policy.
    pub destination: Option<String>,
    pub decision: Option<String>,
}

/// In a thread of its own, so that it has a VM of its own; a panic is a failure there.
pub fn run<R: Send + 'static>(
    name: String,
    life: impl FnOnce(Envoy) -> R + Send + 'static,
) -> thread::Result<R> {
    let thread = thread::Builder::new().name(name);
    thread
        .spawn(|| life(Envoy { roots: Vec::new(), hangs: false, model: None, next: 0, ticks: 0 }))
        .unwrap()
        .join()
}

pub struct Envoy {
    /// Those that live.
    pub roots: Vec<u32>,
    /// Its control plane says nothing, and closes nothing.
    pub hangs: bool,
    /// What both nodes serve, of the next rosters.
    pub model: Option<&'static str>,
    next: u32,
    ticks: u64,
}

impl Envoy {
    /// A filter with this configuration; false if it refuses that.
    pub fn configure(&mut self, configuration: &[u8]) -> bool {
        self.next += 1;
        self.roots.push(self.next);
        world(|world| {
            world.buffer = configuration.to_vec();
            world.properties.insert(b"plugin_vm_id".to_vec(), b"isocost".to_vec());
            world.properties.insert(b"xds\0node\0id".to_vec(), b"edge-1".to_vec());
        });
        _initialize();
        proxy_on_context_create(self.next, 0);
        proxy_on_configure(self.next, configuration.len())
    }

    pub fn remove_root(&mut self, root: u32) {
        self.roots.retain(|other| *other != root);
        self.end(root);
        // Its streams end with it.
        world(|world| world.streams.retain(|_, stream| stream.root != root));
    }

    /// Time passes as long as the filter has asked for ticks; the control plane answers.
    pub fn ticks(&mut self, count: u64) {
        for _ in 0..count {
            self.ticks += 1;
            world(|world| world.now_ns += TICK_MS * 1_000_000);
            if world(|world| world.tick_ms) > 0 {
                for &root in &self.roots {
                    world(|world| world.root = root);
                    proxy_on_tick(root);
                }
            }
            if self.ticks % TICKS_PER_TABLE == 0 && !self.hangs {
                self.push();
            }
        }
    }

    /// A new table for each stream that has subscribed and answered all that came before.
    fn push(&self) {
        let streams = world(|world| {
            let ads = world.streams.iter().filter(|(_, stream)| {
                stream.method == ADS.as_bytes() && stream.sent.len() == 3 + stream.received
            });
            ads.map(|(token, _)| *token).collect::<Vec<_>>()
        });
        for token in streams {
            self.message(token, &response(ROSTER_TYPE, &roster(self.model)));
            self.message(token, &response(TABLE_TYPE, &table()));
        }
    }

    pub fn message(&self, token: u32, bytes: &[u8]) {
        world(|world| world.buffer = bytes.to_vec());
        let root = world(|world| {
            let stream = world.streams.get_mut(&token)?;
            stream.received += 1;
            Some(stream.root)
        });
        if let Some(root) = root {
            proxy_on_grpc_receive(root, token, bytes.len());
        }
    }

    pub fn close_streams(&self) {
        for (token, stream) in world(|world| std::mem::take(&mut world.streams)) {
            proxy_on_grpc_close(stream.root, token, 14);
        }
    }

    /// A new request of the newest configuration, up to where Envoy sends it to a node.
    pub fn begin(&mut self) -> (u32, Routed) {
        let id = self.open(&[]);
        assert_eq!(proxy_on_request_headers(id, 3, true), CONTINUE);
        (id, routed())
    }

    /// A new request with these headers, before the filter has seen it.
    pub fn open(&mut self, headers: &[(&str, &str)]) -> u32 {
        self.next += 1;
        world(|world| {
            let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            world.request_headers = headers.collect();
            world.properties.remove(&b"isocost"[..]);
            world.local_answer = None;
        });
        proxy_on_context_create(self.next, *self.roots.last().unwrap());
        self.next
    }

    pub fn respond(&self, request: u32, node: &str, end: bool) {
        world(|world| {
            let mut set = |path: &[u8], value: &[u8]| {
                world.properties.insert(path.to_vec(), value.to_vec());
            };
            set(b"upstream\0address", node.as_bytes());
            set(b"upstream\0request_attempt_count", &1u64.to_le_bytes());
            set(b"response\0flags", &0u64.to_le_bytes());
            world.response_headers = [
                (":status", "200"),
                ("content-type", "text/event-stream"),
                ("x-envoy-upstream-service-time", "3"),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec();
        });
        assert_eq!(proxy_on_response_headers(request, 3, end), CONTINUE);
    }

    pub fn body(&self, request: u32, end: bool) {
        let piece = br#"data: {"usage": {"completion_tokens": 7}}"#;
        world(|world| world.buffer = piece.to_vec());
        assert_eq!(proxy_on_response_body(request, piece.len(), end), CONTINUE);
    }

    pub fn end(&self, context: u32) {
        proxy_on_done(context);
        proxy_on_delete(context);
    }

    /// A request from its beginning to its end.
    pub fn request(&mut self) -> Routed {
        let (id, routed) = self.begin();
        let listed = routed.destination.as_ref().and_then(|list| list.split(',').next());
        self.respond(id, listed.unwrap_or(NODES[1]), false);
        self.body(id, false);
        self.body(id, true);
        self.end(id);
        routed
    }
}

/// What has become of the request that was called last.
pub fn routed() -> Routed {
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
    world(|world| Routed {
        destination: world.request_headers.get(&b"x-isocost-destination"[..]).map(text),
        decision: world.properties.get(&b"isocost"[..]).map(text),
    })
}

/// Its token, if it is open.
pub fn stream(method: &str) -> Option<u32> {
    world(|world| {
        let of = |(token, stream): (&u32, &Stream)| {
            (stream.method == method.as_bytes()).then_some(*token)
        };
        world.streams.iter().find_map(of)
    })
}

/// From now on calls end as `fate` says.
pub fn set_fate(fate: impl FnMut(&'static str) -> u32 + 'static) {
    let fate: Fate = Box::new(fate);
    world(|world| world.fate = fate);
}

fn response(type_url: &str, resource: &[u8]) -> Vec<u8> {
    let mut any = Vec::new();
    put_string(&mut any, 1, type_url.as_bytes());
    put_string(&mut any, 2, resource);
    let mut response = Vec::new();
    put_string(&mut response, 1, b"v1");
    put_bytes(&mut response, 2, &any);
    put_string(&mut response, 4, type_url.as_bytes());
    put_string(&mut response, 5, b"n1");
    response
}

fn roster(model: Option<&str>) -> Vec<u8> {
    let mut roster = Vec::new();
    put_fixed64(&mut roster, 1, ROSTER_VERSION);
    for (id, address) in (1..).zip(NODES) {
        let mut node = Vec::new();
        put_fixed64(&mut node, 1, id);
        put_string(&mut node, 4, address.as_bytes());
        put_string(&mut node, 6, address.as_bytes());
        if let Some(name) = model {
            let mut model = Vec::new();
            put_string(&mut model, 1, name.as_bytes());
            put_bytes(&mut node, 9, &model);
        }
        put_bytes(&mut roster, 2, &node);
    }
    roster
}

fn table() -> Vec<u8> {
    let unix_ms = world(|world| (world.now_ns + world.unix_lead_ns) / 1_000_000);
    let mut table = Vec::new();
    put_fixed64(&mut table, 1, unix_ms);
    put_fixed64(&mut table, 2, ROSTER_VERSION);
    put_fixed64(&mut table, 3, unix_ms);
    put_bytes(&mut table, 4, &[1f32, 1f32].map(f32::to_le_bytes).concat());
    put_bytes(&mut table, 5, &[0f32, 0f32].map(f32::to_le_bytes).concat());
    put_bytes(&mut table, 6, &[2, 2]);
    table
}

/// What the feed has reported last.
#[derive(Debug, PartialEq)]
pub struct Reported {
    /// Requests that are open on all nodes together.
    pub open: u64,
    pub workers_live: u64,
    pub workers_expected: u64,
}

pub fn reported() -> Option<Reported> {
    world(|world| {
        let report = world.streams.values().rfind(|stream| stream.method == REPORTS.as_bytes());
        report?.sent.iter().rev().find_map(|report| read_report(report))
    })
}

/// None if no VM's batch is in it.
fn read_report(report: &[u8]) -> Option<Reported> {
    let batch = last_message(report, 1)?;
    let workers = last_message(report, 2).unwrap();
    Some(Reported {
        open: row_sum(batch, OPEN_NOW),
        workers_live: number(workers, 2),
        workers_expected: number(workers, 3),
    })
}

/// Where a number stands in a node's rows, see observation.proto.
#[derive(Clone, Copy)]
pub struct Place {
    field: u32,
    row: usize,
    at: usize,
    width: usize,
}

/// How many requests are open.
const OPEN_NOW: Place = Place { field: 16, row: 36, at: 8, width: 4 };
pub const PENDING_TOKENS: Place = Place { at: 20, width: 8, ..OPEN_NOW };

pub const fn count_of_news(place: usize) -> Place {
    Place { field: 17, row: 132, at: 8 + 4 * place, width: 4 }
}

pub const fn sum_of_news(place: usize) -> Place {
    Place { at: 8 + 4 * 17 + 8 * place, width: 8, ..count_of_news(0) }
}

/// The sum of a number over all nodes in all that the feed has reported.
pub fn reported_sum(place: Place) -> u64 {
    each_batch(|batch| row_sum(batch, place)).into_iter().sum()
}

fn row_sum(batch: &[u8], Place { field, row, at, width }: Place) -> u64 {
    let number = |row: &[u8]| {
        row[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    messages(batch, field).iter().flat_map(|rows| rows.chunks(row)).map(number).sum()
}

/// How long the answers were of which the feed has told.
pub fn reported_answers() -> Vec<u64> {
    let answers = |batch: &[u8]| {
        messages(batch, 15).iter().map(|answer| number(answer, 3)).collect::<Vec<_>>()
    };
    each_batch(answers).concat()
}

fn each_batch<R>(read: impl Fn(&[u8]) -> R) -> Vec<R> {
    world(|world| {
        let streams = world.streams.values().filter(|stream| stream.method == REPORTS.as_bytes());
        let batches = streams.flat_map(|stream| &stream.sent).flat_map(|sent| messages(sent, 1));
        batches.map(read).collect()
    })
}

fn last_message(message: &[u8], field: u32) -> Option<&[u8]> {
    messages(message, field).pop()
}

fn messages(message: &[u8], field: u32) -> Vec<&[u8]> {
    let of = |(number, value)| match value {
        Value::Bytes(bytes) if number == field => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(of).collect()
}

/// A field that is not written is 0.
pub fn number(message: &[u8], field: u32) -> u64 {
    let of = |(number, value)| match value {
        Value::Varint(value) if number == field => Some(value),
        _ => None,
    };
    fields(message).into_iter().find_map(of).unwrap_or(0)
}

fn fields(message: &[u8]) -> Vec<(u32, Value<'_>)> {
    let mut reader = Reader::new(message);
    std::iter::from_fn(|| reader.field().unwrap()).collect()
}
