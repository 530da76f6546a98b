//! Host calls that the SDK has for other filters: linked, and never made.
#![allow(unsafe_code)]

macro_rules! uncalled {
    ($($name:ident)*) => {
        $(#[no_mangle]
        extern "C" fn $name() -> u32 {
            panic!(stringify!($name))
        })*
    };
}

uncalled! {
    proxy_add_header_map_value
    proxy_call_foreign_function
    proxy_close_stream
    proxy_continue_stream
    proxy_done
    proxy_get_log_level
    proxy_get_metric
    proxy_get_status
    proxy_grpc_call
    proxy_grpc_close
    proxy_http_call
    proxy_set_buffer_bytes
    proxy_set_header_map_pairs
}
