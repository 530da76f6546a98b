//! What Envoy calls: the SDK's exports, which are no part of its Rust interface.
//!
//! A panic behind them ends the whole test process, as it ends a VM; its message names the thread,
//! and that is named after the case.
#![allow(unsafe_code)]

pub use crate::_initialize;

pub const CONTINUE: u32 = 0;
pub const PAUSE: u32 = 1;

unsafe extern "C" {
    pub safe fn proxy_on_memory_allocate(size: usize) -> *mut u8;
    pub safe fn proxy_on_context_create(context: u32, root: u32);
    pub safe fn proxy_on_configure(root: u32, size: usize) -> bool;
    pub safe fn proxy_on_tick(root: u32);
    pub safe fn proxy_on_grpc_receive(root: u32, token: u32, size: usize);
    pub safe fn proxy_on_grpc_close(root: u32, token: u32, status: u32);
    pub safe fn proxy_on_request_headers(request: u32, headers: usize, end: bool) -> u32;
    pub safe fn proxy_on_request_body(request: u32, size: usize, end: bool) -> u32;
    pub safe fn proxy_on_request_trailers(request: u32, trailers: usize) -> u32;
    pub safe fn proxy_on_response_headers(request: u32, headers: usize, end: bool) -> u32;
    pub safe fn proxy_on_response_body(request: u32, size: usize, end: bool) -> u32;
    pub safe fn proxy_on_response_trailers(request: u32, trailers: usize) -> u32;
    pub safe fn proxy_on_done(context: u32) -> bool;
    pub safe fn proxy_on_delete(context: u32);
}
