//! All that the filter asks of Envoy. Nothing here panics: a call that fails says so, to its caller
//! and in the log.
//!
//! The only module with `unsafe` and the only one that makes host calls. Values are bytes, because
//! headers need not be UTF-8.
mod abi;
#[cfg(target_family = "wasm")]
mod allocator;
mod failures;

use std::ptr::null_mut;

/// The status with which a host call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure(u32);

impl Failure {
    pub const NOT_FOUND: Failure = Failure(1);
    const EMPTY: Failure = Failure(7);
    const CAS_MISMATCH: Failure = Failure(8);
    /// Of a call that has no answer but the one asked for.
    const NONE: Failure = Failure(OK);
}

const OK: u32 = 0;

pub type Result<T> = std::result::Result<T, Failure>;

/// `usual` is a failure that is an answer like any other; every other one is told in the log.
fn check(call: &'static str, usual: Failure, status: u32) -> Result<()> {
    if status == OK {
        return Ok(());
    }
    let failure = Failure(status);
    if failure != usual {
        failures::note(call, status);
    }
    Err(failure)
}

/// Takes over what a call left in its two out-parameters.
fn fetch(
    name: &'static str,
    usual: Failure,
    call: impl FnOnce(*mut *mut u8, *mut usize) -> u32,
) -> Result<Vec<u8>> {
    let mut data = null_mut();
    let mut len = 0;
    check(name, usual, call(&mut data, &mut len))?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the host got this memory from proxy_on_memory_allocate, which made it as a Vec of
    // exactly this length, and gives it away with this call.
    Ok(unsafe { Vec::from_raw_parts(data, len, len) })
}

#[derive(Clone, Copy)]
pub enum Level {
    Info = 2,
    Warn = 3,
    Error = 4,
}

pub fn log(level: Level, text: &[u8]) {
    // SAFETY: the host only reads the given bytes during the call; so it is in every call below
    // that passes a slice. Out-parameters are locals that live through the call.
    let _ = unsafe { abi::proxy_log(level as u32, text.as_ptr(), text.len()) };
}

/// Says where the code panicked, which Envoy does not; build.sh puts it in the place of std's.
#[cfg(target_family = "wasm")]
#[no_mangle]
extern "C" fn isocost_panicked(at: &std::panic::Location) {
    let mut text = b"panic at ".to_vec();
    text.extend_from_slice(at.file().as_bytes());
    text.push(b':');
    crate::logfmt::write_decimal(at.line().into(), &mut text);
    log(Level::Error, &text);
}

/// The wall clock.
pub fn now_unix_ms() -> Result<u64> {
    let mut now_ns = 0;
    let status = unsafe { abi::proxy_get_current_time_nanoseconds(&mut now_ns) };
    check("get_current_time", Failure::NONE, status)?;
    Ok(now_ns / 1_000_000)
}

/// A clock that never goes back and is the same for all VMs of one Envoy.
pub fn monotonic_us() -> Result<u64> {
    const MONOTONIC: u32 = 1;
    let mut now_ns = 0;
    let status = unsafe { abi::clock_time_get(MONOTONIC, 0, &mut now_ns) };
    check("clock_time_get", Failure::NONE, status)?;
    Ok(now_ns / 1_000)
}

pub fn monotonic_ms() -> Result<u64> {
    Ok(monotonic_us()? / 1_000)
}

pub fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    let status = unsafe { abi::random_get(bytes.as_mut_ptr(), bytes.len()) };
    check("random_get", Failure::NONE, status)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Ticks of the calling root context.
pub fn set_tick_period(period_ms: u32) -> Result<()> {
    let status = unsafe { abi::proxy_set_tick_period_milliseconds(period_ms) };
    check("set_tick_period", Failure::NONE, status)
}

/// The parts of `path` are separated by NUL. Structured properties must not be asked for.
pub fn property(path: &[u8]) -> Result<Vec<u8>> {
    fetch("get_property", Failure::NOT_FOUND, |data, len| unsafe {
        abi::proxy_get_property(path.as_ptr(), path.len(), data, len)
    })
}

/// An integer property.
pub fn property_u64(path: &[u8]) -> Option<u64> {
    let bytes = property(path).ok()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Sets the filter state `wasm.<path>` of the current request.
pub fn set_property(path: &[u8], value: &[u8]) -> Result<()> {
    check("set_property", Failure::NONE, unsafe {
        abi::proxy_set_property(path.as_ptr(), path.len(), value.as_ptr(), value.len())
    })
}

#[derive(Clone, Copy)]
pub enum Buffer {
    RequestBody = 0,
    ResponseBody = 1,
    GrpcMessage = 5,
    PluginConfiguration = 7,
}

/// At most `max_len` bytes of a buffer from `start` on.
pub fn buffer(kind: Buffer, start: usize, max_len: usize) -> Result<Vec<u8>> {
    fetch("get_buffer_bytes", Failure::NONE, |data, len| unsafe {
        abi::proxy_get_buffer_bytes(kind as u32, start, max_len, data, len)
    })
}

const REQUEST_HEADERS: u32 = 0;
const RESPONSE_HEADERS: u32 = 2;

#[cfg(feature = "test-trap")]
pub fn request_header(name: &[u8]) -> Result<Vec<u8>> {
    fetch("get_header_map_value", Failure::NOT_FOUND, |data, len| unsafe {
        abi::proxy_get_header_map_value(REQUEST_HEADERS, name.as_ptr(), name.len(), data, len)
    })
}

/// All of them, as `isocost_core::headers` reads them.
pub fn request_headers() -> Result<Vec<u8>> {
    headers(REQUEST_HEADERS)
}

/// All of them, as `isocost_core::head` reads them.
pub fn response_headers() -> Result<Vec<u8>> {
    headers(RESPONSE_HEADERS)
}

fn headers(map: u32) -> Result<Vec<u8>> {
    fetch("get_header_map_pairs", Failure::NONE, |data, len| unsafe {
        abi::proxy_get_header_map_pairs(map, data, len)
    })
}

/// Answers the current request with JSON instead of a node; nothing more may be done with it.
pub fn answer_json(status: u32, details: &[u8], body: &[u8]) -> Result<()> {
    // One header in proxy-wasm's form of a header map.
    const HEADERS: &[u8] = b"\x01\0\0\0\x0c\0\0\0\x10\0\0\0content-type\0application/json\0";
    const NO_GRPC_STATUS: i32 = -1;
    check("send_local_response", Failure::NONE, unsafe {
        abi::proxy_send_local_response(
            status,
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            HEADERS.as_ptr(),
            HEADERS.len(),
            NO_GRPC_STATUS,
        )
    })
}

pub fn replace_request_header(name: &[u8], value: &[u8]) -> Result<()> {
    check("replace_header_map_value", Failure::NONE, unsafe {
        abi::proxy_replace_header_map_value(
            REQUEST_HEADERS,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    })
}

pub fn remove_request_header(name: &[u8]) -> Result<()> {
    check("remove_header_map_value", Failure::NONE, unsafe {
        abi::proxy_remove_header_map_value(REQUEST_HEADERS, name.as_ptr(), name.len())
    })
}

/// A value of shared data with its compare-and-set number.
pub fn shared(key: &[u8]) -> Result<(Vec<u8>, u32)> {
    let mut cas = 0;
    let value = fetch("get_shared_data", Failure::NOT_FOUND, |data, len| unsafe {
        abi::proxy_get_shared_data(key.as_ptr(), key.len(), data, len, &mut cas)
    })?;
    Ok((value, cas))
}

/// With `cas` 0 the value is set in any case.
pub fn set_shared(key: &[u8], value: &[u8], cas: u32) -> Result<()> {
    check("set_shared_data", Failure::CAS_MISMATCH, unsafe {
        abi::proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Queue(u32);

/// Makes the queue if it is not there; the caller becomes the one that is told of new items.
pub fn register_queue(name: &[u8]) -> Result<Queue> {
    let mut id = 0;
    check("register_shared_queue", Failure::NONE, unsafe {
        abi::proxy_register_shared_queue(name.as_ptr(), name.len(), &mut id)
    })?;
    Ok(Queue(id))
}

/// Finds a queue that a VM of this id has registered.
pub fn resolve_queue(vm_id: &[u8], name: &[u8]) -> Result<Queue> {
    let mut id = 0;
    check("resolve_shared_queue", Failure::NOT_FOUND, unsafe {
        abi::proxy_resolve_shared_queue(
            vm_id.as_ptr(),
            vm_id.len(),
            name.as_ptr(),
            name.len(),
            &mut id,
        )
    })?;
    Ok(Queue(id))
}

impl Queue {
    pub fn push(self, value: &[u8]) -> Result<()> {
        check("enqueue_shared_queue", Failure::NONE, unsafe {
            abi::proxy_enqueue_shared_queue(self.0, value.as_ptr(), value.len())
        })
    }

    /// Also a failure if there is nothing.
    pub fn pop(self) -> Result<Vec<u8>> {
        fetch("dequeue_shared_queue", Failure::EMPTY, |data, len| unsafe {
            abi::proxy_dequeue_shared_queue(self.0, data, len)
        })
    }
}

/// An open gRPC stream of the current root context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stream(u32);

impl Stream {
    /// Through the SDK, because only its dispatcher can route the answers. It panics on nothing
    /// that Envoy returns here: Ok, ParseFailure, InternalFailure.
    #[allow(clippy::disallowed_methods)]
    pub fn open(service: &str, name: &str, method: &str) -> Result<Stream> {
        proxy_wasm::hostcalls::open_grpc_stream(service, name, method, Vec::new())
            .map(Stream)
            .map_err(|status| {
                failures::note("grpc_stream", status as u32);
                Failure(status as u32)
            })
    }

    pub fn is(self, token: u32) -> bool {
        self.0 == token
    }

    pub fn send(self, message: &[u8]) -> Result<()> {
        check("grpc_send", Failure::NONE, unsafe {
            abi::proxy_grpc_send(self.0, message.as_ptr(), message.len(), 0)
        })
    }

    /// No on_grpc_stream_close follows.
    pub fn cancel(self) {
        let _ = check("grpc_cancel", Failure::NONE, unsafe { abi::proxy_grpc_cancel(self.0) });
    }
}

/// Without an id it could not be defined, and counts nothing.
#[derive(Clone, Copy)]
pub struct Counter(Option<u32>);

#[derive(Clone, Copy)]
pub struct Gauge(Option<u32>);

fn define_metric(kind: u32, name: &str) -> Option<u32> {
    let mut id = 0;
    check("define_metric", Failure::NONE, unsafe {
        abi::proxy_define_metric(kind, name.as_ptr(), name.len(), &mut id)
    })
    .ok()?;
    Some(id)
}

impl Counter {
    pub fn define(name: &str) -> Counter {
        Counter(define_metric(0, name))
    }

    pub fn increment(self) {
        let Some(id) = self.0 else { return };
        let _ =
            check("increment_metric", Failure::NONE, unsafe { abi::proxy_increment_metric(id, 1) });
    }
}

impl Gauge {
    pub fn define(name: &str) -> Gauge {
        Gauge(define_metric(1, name))
    }

    pub fn record(self, value: u64) {
        let Some(id) = self.0 else { return };
        let _ =
            check("record_metric", Failure::NONE, unsafe { abi::proxy_record_metric(id, value) });
    }
}
