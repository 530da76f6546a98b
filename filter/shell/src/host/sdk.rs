//! Takes the SDK's own host calls out of the module. Its traits bring them along as methods, each of
//! which panics on a status that it does not expect. Nobody calls them (clippy refuses), but they
//! are in the tables through which the dispatcher reaches a context, so the linker keeps them.

/// Methods that do nothing, in place of a trait's own.
macro_rules! nothing {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $(_: $argument),*) $(-> $result)? {
            Default::default()
        })*
    };
}
pub(crate) use nothing;

/// Of `proxy_wasm::traits::Context`.
macro_rules! context_calls {
    () => {
        $crate::host::sdk::nothing! {
            get_property(Vec<&str>) -> Option<Vec<u8>>;
            set_property(Vec<&str>, Option<&[u8]>);
            get_shared_data(&str) -> (Option<Vec<u8>>, Option<u32>);
            register_shared_queue(&str) -> u32;
            resolve_shared_queue(&str, &str) -> Option<u32>;
            get_http_call_response_headers() -> Vec<(String, String)>;
            get_http_call_response_headers_bytes() -> Vec<(String, Vec<u8>)>;
            get_http_call_response_header(&str) -> Option<String>;
            get_http_call_response_header_bytes(&str) -> Option<Vec<u8>>;
            get_http_call_response_body(usize, usize) -> Option<Vec<u8>>;
            get_http_call_response_trailers() -> Vec<(String, String)>;
            get_http_call_response_trailers_bytes() -> Vec<(String, Vec<u8>)>;
            get_http_call_response_trailer(&str) -> Option<String>;
            get_http_call_response_trailer_bytes(&str) -> Option<Vec<u8>>;
            get_grpc_call_response_body(usize, usize) -> Option<Vec<u8>>;
            cancel_grpc_call(u32);
            get_grpc_stream_initial_metadata() -> Vec<(String, Vec<u8>)>;
            get_grpc_stream_initial_metadata_value(&str) -> Option<Vec<u8>>;
            send_grpc_stream_message(u32, Option<&[u8]>, bool);
            get_grpc_stream_trailing_metadata() -> Vec<(String, Vec<u8>)>;
            get_grpc_stream_trailing_metadata_value(&str) -> Option<Vec<u8>>;
            cancel_grpc_stream(u32);
            close_grpc_stream(u32);
            get_grpc_status() -> (u32, Option<String>);
            done();
        }
    };
}
pub(crate) use context_calls;

/// Of `proxy_wasm::traits::RootContext`.
macro_rules! root_context_calls {
    () => {
        $crate::host::sdk::nothing! {
            get_vm_configuration() -> Option<Vec<u8>>;
            get_plugin_configuration() -> Option<Vec<u8>>;
            set_tick_period(std::time::Duration);
        }
    };
}
pub(crate) use root_context_calls;

/// Of `proxy_wasm::traits::HttpContext`.
macro_rules! http_context_calls {
    () => {
        $crate::host::sdk::nothing! {
            get_http_request_headers() -> Vec<(String, String)>;
            get_http_request_headers_bytes() -> Vec<(String, Vec<u8>)>;
            set_http_request_headers(Vec<(&str, &str)>);
            set_http_request_headers_bytes(Vec<(&str, &[u8])>);
            get_http_request_header(&str) -> Option<String>;
            get_http_request_header_bytes(&str) -> Option<Vec<u8>>;
            set_http_request_header(&str, Option<&str>);
            set_http_request_header_bytes(&str, Option<&[u8]>);
            add_http_request_header(&str, &str);
            add_http_request_header_bytes(&str, &[u8]);
            remove_http_request_header(&str);
            get_http_request_body(usize, usize) -> Option<Vec<u8>>;
            set_http_request_body(usize, usize, &[u8]);
            get_http_request_trailers() -> Vec<(String, String)>;
            get_http_request_trailers_bytes() -> Vec<(String, Vec<u8>)>;
            set_http_request_trailers(Vec<(&str, &str)>);
            set_http_request_trailers_bytes(Vec<(&str, &[u8])>);
            get_http_request_trailer(&str) -> Option<String>;
            get_http_request_trailer_bytes(&str) -> Option<Vec<u8>>;
            set_http_request_trailer(&str, Option<&str>);
            set_http_request_trailer_bytes(&str, Option<&[u8]>);
            add_http_request_trailer(&str, &str);
            add_http_request_trailer_bytes(&str, &[u8]);
            remove_http_request_trailer(&str);
            resume_http_request();
            reset_http_request();
            get_http_response_headers() -> Vec<(String, String)>;
            get_http_response_headers_bytes() -> Vec<(String, Vec<u8>)>;
            set_http_response_headers(Vec<(&str, &str)>);
            set_http_response_headers_bytes(Vec<(&str, &[u8])>);
            get_http_response_header(&str) -> Option<String>;
            get_http_response_header_bytes(&str) -> Option<Vec<u8>>;
            set_http_response_header(&str, Option<&str>);
            set_http_response_header_bytes(&str, Option<&[u8]>);
            add_http_response_header(&str, &str);
            add_http_response_header_bytes(&str, &[u8]);
            remove_http_response_header(&str);
            get_http_response_body(usize, usize) -> Option<Vec<u8>>;
            set_http_response_body(usize, usize, &[u8]);
            get_http_response_trailers() -> Vec<(String, String)>;
            get_http_response_trailers_bytes() -> Vec<(String, Vec<u8>)>;
            set_http_response_trailers(Vec<(&str, &str)>);
            set_http_response_trailers_bytes(Vec<(&str, &[u8])>);
            get_http_response_trailer(&str) -> Option<String>;
            get_http_response_trailer_bytes(&str) -> Option<Vec<u8>>;
            set_http_response_trailer(&str, Option<&str>);
            set_http_response_trailer_bytes(&str, Option<&[u8]>);
            add_http_response_trailer(&str, &str);
            add_http_response_trailer_bytes(&str, &[u8]);
            remove_http_response_trailer(&str);
            resume_http_response();
            reset_http_response();
            send_http_response(u32, Vec<(&str, &str)>, Option<&[u8]>);
            send_grpc_response(proxy_wasm::types::GrpcStatusCode, Option<&str>, Vec<(&str, &[u8])>);
        }
    };
}
pub(crate) use http_context_calls;
