//! The least that a filter can do which sees the whole request before it chooses a destination:
//! it holds the headers back, copies the body once at its end and sets one header. What the real
//! filter costs is compared with this.
#![deny(unsafe_code)]
// The SDK as it comes: no request is lost with a floor.
#![allow(clippy::disallowed_methods)]

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|_| Box::new(Root));
}}

struct Root;

impl Context for Root {}

impl RootContext for Root {
    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Request))
    }
}

struct Request;

impl Request {
    fn choose(&self) {
        self.set_http_request_header("x-isocost-floor", Some("1"));
    }
}

impl Context for Request {}

impl HttpContext for Request {
    fn on_http_request_headers(&mut self, _headers: usize, end: bool) -> Action {
        if end {
            self.choose();
            return Action::Continue;
        }
        Action::Pause
    }

    fn on_http_request_body(&mut self, size: usize, end: bool) -> Action {
        if !end {
            return Action::Pause;
        }
        std::hint::black_box(self.get_http_request_body(0, size));
        self.choose();
        Action::Continue
    }
}
