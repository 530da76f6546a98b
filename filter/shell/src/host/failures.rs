//! Host calls that failed, told in the log. A call that fails for every request must not fill it,
//! so each is told at its 1st, 2nd, 4th, 8th ... failure.
use std::cell::RefCell;

use super::{log, Level};
use crate::logfmt::write_decimal;

thread_local! {
    static COUNTS: RefCell<Vec<(&'static str, u32)>> = const { RefCell::new(Vec::new()) };
}

pub fn note(call: &'static str, status: u32) {
    let times = count(call);
    if times.is_power_of_two() {
        let mut text = [b"host call ", call.as_bytes(), b": status "].concat();
        write_decimal(status.into(), &mut text);
        text.extend_from_slice(b", failures so far: ");
        write_decimal(times.into(), &mut text);
        log(Level::Warn, &text);
    }
}

fn count(call: &'static str) -> u32 {
    COUNTS.with(|counts| {
        let Ok(mut counts) = counts.try_borrow_mut() else { return 0 };
        match counts.iter_mut().find(|(name, _)| *name == call) {
            Some((_, times)) => {
                *times = times.saturating_add(1);
                *times
            }
            None => {
                counts.push((call, 1));
                1
            }
        }
    })
}
