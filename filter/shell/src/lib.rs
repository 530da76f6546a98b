//! The filter as Envoy sees it: translates between Envoy and isocost-core, decides nothing itself.
#![deny(unsafe_code)]

mod choice;
mod feed;
#[allow(unsafe_code)]
mod host;
mod http;
mod intake;
mod logfmt;
mod metrics;
mod publish;
mod response;
mod root;
mod shared;
mod stream;
#[cfg(feature = "test-trap")]
mod test_trap;
#[cfg(test)]
mod tests;
mod view;
mod vm;

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|context_id| Box::new(root::Root::new(context_id)));
}}
