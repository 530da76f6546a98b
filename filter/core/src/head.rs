//! What the headers of an answer say.

use crate::headers::Headers;
use crate::latency::is_event_stream;
use crate::number::whole_number;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: Option<u16>,
    pub event_stream: bool,
    /// Token counts can be in it: it is an event stream or JSON.
    pub has_usage: bool,
    /// It carries the time that a node took. Envoy sets that on nodes' answers only; it can be
    /// configured not to, so its absence says nothing.
    pub timed_by_envoy: bool,
    /// How often Envoy tried, if the route makes it say so.
    pub attempts: Option<u64>,
}

impl Head {
    /// Reads what `headers` describes.
    pub fn read(pairs: &[u8]) -> Head {
        let mut head = Head::default();
        Headers::read(pairs).for_each(|(name, value)| head.note(name, value));
        head
    }

    fn note(&mut self, name: &[u8], value: &[u8]) {
        if name == b":status" {
            self.status = status(value);
        } else if name == b"content-type" {
            self.event_stream = is_event_stream(value);
            self.has_usage = self.event_stream || value.starts_with(b"application/json");
        } else if name == b"x-envoy-upstream-service-time" {
            self.timed_by_envoy = true;
        } else if name == b"x-envoy-attempt-count" {
            self.attempts = whole_number(value, u32::MAX.into());
        }
    }
}

fn status(text: &[u8]) -> Option<u16> {
    let digits = Some(text).filter(|text| !text.is_empty())?;
    digits.iter().try_fold(0u16, |status, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        status.checked_mul(10)?.checked_add(digit.into())
    })
}
