//! Envoy's side of the ABI (proxy-wasm 0.2.1 and two WASI calls), declared as it is.
//!
//! The SDK declares the same imports but panics on statuses that it does not expect, so the filter
//! has its own. Statuses are plain numbers here: a host may return any.

#[link(wasm_import_module = "env")]
extern "C" {
    pub fn proxy_log(level: u32, text: *const u8, text_len: usize) -> u32;
    pub fn proxy_get_current_time_nanoseconds(now: *mut u64) -> u32;
    pub fn proxy_set_tick_period_milliseconds(period_ms: u32) -> u32;
    pub fn proxy_get_property(
        path: *const u8,
        path_len: usize,
        value: *mut *mut u8,
        value_len: *mut usize,
    ) -> u32;
    pub fn proxy_set_property(
        path: *const u8,
        path_len: usize,
        value: *const u8,
        value_len: usize,
    ) -> u32;
    pub fn proxy_get_buffer_bytes(
        kind: u32,
        start: usize,
        max_len: usize,
        value: *mut *mut u8,
        value_len: *mut usize,
    ) -> u32;
    pub fn proxy_get_header_map_pairs(kind: u32, value: *mut *mut u8, value_len: *mut usize)
        -> u32;
    #[cfg(feature = "test-trap")]
    pub fn proxy_get_header_map_value(
        kind: u32,
        name: *const u8,
        name_len: usize,
        value: *mut *mut u8,
        value_len: *mut usize,
    ) -> u32;
    pub fn proxy_replace_header_map_value(
        kind: u32,
        name: *const u8,
        name_len: usize,
        value: *const u8,
        value_len: usize,
    ) -> u32;
    pub fn proxy_remove_header_map_value(kind: u32, name: *const u8, name_len: usize) -> u32;
    pub fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_len: usize,
        body: *const u8,
        body_len: usize,
        headers: *const u8,
        headers_len: usize,
        grpc_status: i32,
    ) -> u32;
    pub fn proxy_get_shared_data(
        key: *const u8,
        key_len: usize,
        value: *mut *mut u8,
        value_len: *mut usize,
        cas: *mut u32,
    ) -> u32;
    pub fn proxy_set_shared_data(
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        cas: u32,
    ) -> u32;
    pub fn proxy_register_shared_queue(name: *const u8, name_len: usize, queue: *mut u32) -> u32;
    pub fn proxy_resolve_shared_queue(
        vm_id: *const u8,
        vm_id_len: usize,
        name: *const u8,
        name_len: usize,
        queue: *mut u32,
    ) -> u32;
    pub fn proxy_enqueue_shared_queue(queue: u32, value: *const u8, value_len: usize) -> u32;
    pub fn proxy_dequeue_shared_queue(
        queue: u32,
        value: *mut *mut u8,
        value_len: *mut usize,
    ) -> u32;
    pub fn proxy_grpc_send(
        token: u32,
        message: *const u8,
        message_len: usize,
        end_stream: u32,
    ) -> u32;
    pub fn proxy_grpc_cancel(token: u32) -> u32;
    pub fn proxy_define_metric(kind: u32, name: *const u8, name_len: usize, id: *mut u32) -> u32;
    pub fn proxy_record_metric(id: u32, value: u64) -> u32;
    pub fn proxy_increment_metric(id: u32, offset: i64) -> u32;
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
extern "C" {
    pub fn clock_time_get(clock: u32, precision_ns: u64, now_ns: *mut u64) -> u32;
    pub fn random_get(buffer: *mut u8, buffer_len: usize) -> u32;
}
