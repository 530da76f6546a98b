//! Failures on demand, for the tests of what a failure costs. The shipped filter is built without
//! the feature `test-trap`, hence without this file.
#![allow(clippy::panic)]
use crate::host;

/// `request`: that request fails the VM. `feed`: the feed's next tick fails its VM, whichever that is.
const TRIGGER: &[u8] = b"x-isocost-test-trap";
/// Shared data: set while a failure of the feed is ordered.
const ORDER: &[u8] = b"isocost.test-trap";

pub fn on_request() {
    match host::request_header(TRIGGER).as_deref() {
        Ok(b"request") => panic!("ordered by the request"),
        Ok(b"feed") => {
            let _ = host::set_shared(ORDER, b"feed", 0);
        }
        _ => {}
    }
}

pub fn on_feed_tick() {
    if host::shared(ORDER).is_ok_and(|(order, _)| order == b"feed") {
        // Taken before it is obeyed: the next holder must not fail as well.
        let _ = host::set_shared(ORDER, b"", 0);
        panic!("ordered by a request");
    }
}
