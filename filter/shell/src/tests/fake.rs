//! Envoy's side of the ABI for tests, for the SDK and the filter alike: one Envoy per thread, as far
//! as the filter sees of it. Any of its calls can be told to fail.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::slice;

use super::exports::proxy_on_memory_allocate;

/// Statuses.
pub const OK: u32 = 0;
pub const NOT_FOUND: u32 = 1;
pub const BAD_ARGUMENT: u32 = 2;
pub const PARSE_FAILURE: u32 = 4;
const EMPTY: u32 = 7;
const CAS_MISMATCH: u32 = 8;
pub const INTERNAL_FAILURE: u32 = 10;

/// Decides about each call by its name; `OK` lets it do its work.
pub type Fate = Box<dyn FnMut(&'static str) -> u32>;

/// A gRPC stream that the filter opened.
pub struct Stream {
    /// The context that opened it.
    pub root: u32,
    pub method: Vec<u8>,
    pub sent: Vec<Vec<u8>>,
    /// Messages of the other side.
    pub received: usize,
}

pub struct World {
    pub fate: Fate,
    /// How often each call was made.
    pub calls: BTreeMap<&'static str, u32>,
    pub log: Vec<String>,
    pub now_ns: u64,
    pub unix_lead_ns: u64,
    pub tick_ms: u32,
    /// The root context that is called.
    pub root: u32,
    pub properties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of whatever is asked for.
    pub buffer: Vec<u8>,
    /// What was handed over of it, in bytes.
    pub read_bytes: usize,
    pub request_headers: BTreeMap<Vec<u8>, Vec<u8>>,
    pub response_headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Status and body of the filter's own answer.
    pub local_answer: Option<(u32, Vec<u8>)>,
    pub shared: BTreeMap<Vec<u8>, (Vec<u8>, u32)>,
    /// None until somebody reads it.
    pub queue: Option<VecDeque<Vec<u8>>>,
    /// Those that are open, by token.
    pub streams: BTreeMap<u32, Stream>,
    opened: u32,
    /// What random bytes come from.
    pub random: u64,
}

impl World {
    fn new() -> World {
        World {
            fate: Box::new(|_| OK),
            calls: BTreeMap::new(),
            log: Vec::new(),
            now_ns: 5_000_000_000,
            unix_lead_ns: 1_790_000_000_000_000_000,
            tick_ms: 0,
            root: 0,
            properties: BTreeMap::new(),
            buffer: Vec::new(),
            read_bytes: 0,
            request_headers: BTreeMap::new(),
            response_headers: Vec::new(),
            local_answer: None,
            shared: BTreeMap::new(),
            queue: None,
            streams: BTreeMap::new(),
            opened: 0,
            random: 1,
        }
    }
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

/// This thread's Envoy.
pub fn world<R>(action: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|world| action(&mut world.borrow_mut()))
}

/// One host call: it fails as its fate is, or does its work.
fn call(name: &'static str, work: impl FnOnce(&mut World) -> u32) -> u32 {
    world(|world| {
        *world.calls.entry(name).or_default() += 1;
        match (world.fate)(name) {
            OK => work(world),
            status => status,
        }
    })
}

unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    slice::from_raw_parts(data, len)
}

unsafe fn give(value: &[u8], data: *mut *mut u8, len: *mut usize) -> u32 {
    let memory = proxy_on_memory_allocate(value.len());
    memory.copy_from_nonoverlapping(value.as_ptr(), value.len());
    *data = memory;
    *len = value.len();
    OK
}

#[no_mangle]
unsafe extern "C" fn proxy_log(_level: u32, text: *const u8, text_len: usize) -> u32 {
    call("log", |world| {
        world.log.push(String::from_utf8(bytes(text, text_len).to_vec()).unwrap());
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_get_current_time_nanoseconds(now: *mut u64) -> u32 {
    call("get_current_time", |world| {
        *now = world.now_ns + world.unix_lead_ns;
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn clock_time_get(_clock: u32, _precision_ns: u64, now: *mut u64) -> u32 {
    call("clock_time_get", |world| {
        *now = world.now_ns;
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn random_get(buffer: *mut u8, len: usize) -> u32 {
    call("random_get", |world| {
        world.random = world.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        buffer.copy_from_nonoverlapping(world.random.to_le_bytes().as_ptr(), len.min(8));
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_set_tick_period_milliseconds(period_ms: u32) -> u32 {
    call("set_tick_period", |world| {
        world.tick_ms = period_ms;
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_get_property(
    path: *const u8,
    path_len: usize,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> u32 {
    call("get_property", |world| match world.properties.get(bytes(path, path_len)) {
        Some(property) => give(property, value, value_len),
        None => NOT_FOUND,
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_set_property(
    path: *const u8,
    path_len: usize,
    value: *const u8,
    value_len: usize,
) -> u32 {
    call("set_property", |world| {
        let path = bytes(path, path_len).to_vec();
        world.properties.insert(path, bytes(value, value_len).to_vec());
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_get_buffer_bytes(
    _kind: u32,
    start: usize,
    max_len: usize,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> u32 {
    call("get_buffer_bytes", |world| {
        let end = start.saturating_add(max_len).min(world.buffer.len());
        match world.buffer.get(start..end) {
            Some(part) => {
                world.read_bytes += part.len();
                give(part, value, value_len)
            }
            None => BAD_ARGUMENT,
        }
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_get_header_map_pairs(
    kind: u32,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> u32 {
    call("get_header_map_pairs", |world| {
        let of_request = world.request_headers.iter();
        let of_request = of_request.map(|(name, value)| (name.clone(), value.clone()));
        let headers = if kind == 0 { of_request.collect() } else { world.response_headers.clone() };
        let number = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
        let mut pairs = number(headers.len()).to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            pairs.extend(number(text.len()));
        }
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            pairs.extend(text);
            pairs.push(0);
        }
        give(&pairs, value, value_len)
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_replace_header_map_value(
    _kind: u32,
    name: *const u8,
    name_len: usize,
    value: *const u8,
    value_len: usize,
) -> u32 {
    call("replace_header_map_value", |world| {
        let name = bytes(name, name_len).to_vec();
        world.request_headers.insert(name, bytes(value, value_len).to_vec());
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_remove_header_map_value(
    _kind: u32,
    name: *const u8,
    name_len: usize,
) -> u32 {
    call("remove_header_map_value", |world| {
        world.request_headers.remove(bytes(name, name_len));
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_get_header_map_value(
    _kind: u32,
    name: *const u8,
    name_len: usize,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> u32 {
    call("get_header_map_value", |world| match world.request_headers.get(bytes(name, name_len)) {
        Some(header) => give(header, value, value_len),
        None => NOT_FOUND,
    })
}

#[allow(clippy::too_many_arguments)]
#[no_mangle]
unsafe extern "C" fn proxy_send_local_response(
    status: u32,
    _details: *const u8,
    _details_len: usize,
    body: *const u8,
    body_len: usize,
    _headers: *const u8,
    _headers_len: usize,
    _grpc_status: i32,
) -> u32 {
    call("send_local_response", |world| {
        world.local_answer = Some((status, bytes(body, body_len).to_vec()));
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_get_shared_data(
    key: *const u8,
    key_len: usize,
    value: *mut *mut u8,
    value_len: *mut usize,
    cas: *mut u32,
) -> u32 {
    call("get_shared_data", |world| match world.shared.get(bytes(key, key_len)) {
        Some((data, version)) => {
            *cas = *version;
            give(data, value, value_len)
        }
        None => NOT_FOUND,
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_set_shared_data(
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    cas: u32,
) -> u32 {
    call("set_shared_data", |world| {
        let key = bytes(key, key_len).to_vec();
        let version = world.shared.get(&key).map_or(0, |(_, version)| *version);
        if cas != 0 && cas != version {
            return CAS_MISMATCH;
        }
        world.shared.insert(key, (bytes(value, value_len).to_vec(), version + 1));
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_register_shared_queue(_: *const u8, _: usize, queue: *mut u32) -> u32 {
    call("register_shared_queue", |world| {
        world.queue.get_or_insert_default();
        *queue = 1;
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_resolve_shared_queue(
    _vm_id: *const u8,
    _vm_id_len: usize,
    _name: *const u8,
    _name_len: usize,
    queue: *mut u32,
) -> u32 {
    call("resolve_shared_queue", |world| {
        *queue = 1;
        world.queue.as_ref().map_or(NOT_FOUND, |_| OK)
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_enqueue_shared_queue(
    _queue: u32,
    value: *const u8,
    value_len: usize,
) -> u32 {
    call("enqueue_shared_queue", |world| match &mut world.queue {
        Some(queue) => {
            queue.push_back(bytes(value, value_len).to_vec());
            OK
        }
        None => NOT_FOUND,
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_dequeue_shared_queue(
    _queue: u32,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> u32 {
    call("dequeue_shared_queue", |world| match world.queue.as_mut().and_then(VecDeque::pop_front) {
        Some(item) => give(&item, value, value_len),
        None => EMPTY,
    })
}

#[allow(clippy::too_many_arguments)]
#[no_mangle]
unsafe extern "C" fn proxy_grpc_stream(
    _service: *const u8,
    _service_len: usize,
    _name: *const u8,
    _name_len: usize,
    method: *const u8,
    method_len: usize,
    _metadata: *const u8,
    _metadata_len: usize,
    token: *mut u32,
) -> u32 {
    call("grpc_stream", |world| {
        world.opened += 1;
        *token = world.opened;
        let method = bytes(method, method_len).to_vec();
        let stream = Stream { root: world.root, method, sent: Vec::new(), received: 0 };
        world.streams.insert(world.opened, stream);
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_grpc_send(
    token: u32,
    message: *const u8,
    message_len: usize,
    _end_stream: u32,
) -> u32 {
    call("grpc_send", |world| match world.streams.get_mut(&token) {
        Some(stream) => {
            stream.sent.push(bytes(message, message_len).to_vec());
            OK
        }
        None => NOT_FOUND,
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_grpc_cancel(token: u32) -> u32 {
    call("grpc_cancel", |world| world.streams.remove(&token).map_or(NOT_FOUND, |_| OK))
}

#[no_mangle]
unsafe extern "C" fn proxy_define_metric(_: u32, _: *const u8, _: usize, id: *mut u32) -> u32 {
    call("define_metric", |_| {
        *id = 1;
        OK
    })
}

#[no_mangle]
unsafe extern "C" fn proxy_record_metric(_id: u32, _value: u64) -> u32 {
    call("record_metric", |_| OK)
}

#[no_mangle]
unsafe extern "C" fn proxy_increment_metric(_id: u32, _offset: i64) -> u32 {
    call("increment_metric", |_| OK)
}

#[no_mangle]
extern "C" fn proxy_set_effective_context(context: u32) -> u32 {
    call("set_effective_context", |world| {
        world.root = context;
        OK
    })
}
