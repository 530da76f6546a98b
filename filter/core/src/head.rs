//! What the headers of an answer say, out of the one piece in which Envoy hands over all of them:
//! a second look-up would cost as much again.

use crate::latency::is_event_stream;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: Option<u16>,
    pub event_stream: bool,
    /// Token counts can be in it: it is an event stream or JSON.
    pub has_usage: bool,
    /// It carries the time that a node took. Envoy sets that on nodes' answers only; it can be
    /// configured not to, so its absence says nothing.
    pub timed_by_envoy: bool,
}

impl Head {
    /// Reads proxy-wasm's form of a header map: the number of headers, the lengths of each name
    /// and value, then all of them, each ended by NUL. What does not fit is not there.
    pub fn read(pairs: &[u8]) -> Head {
        let mut head = Head::default();
        let Some((count, lengths)) = split_u32(pairs) else { return head };
        let Some((mut lengths, mut texts)) = lengths.split_at_checked(count.saturating_mul(8))
        else {
            return head;
        };
        while let Some((name_len, rest)) = split_u32(lengths) {
            let Some((value_len, rest)) = split_u32(rest) else { break };
            lengths = rest;
            let Some((name, rest)) = split_text(texts, name_len) else { break };
            let Some((value, rest)) = split_text(rest, value_len) else { break };
            texts = rest;
            head.note(name, value);
        }
        head
    }

    fn note(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b":status" => self.status = status(value),
            b"content-type" => {
                self.event_stream = is_event_stream(value);
                self.has_usage = self.event_stream || value.starts_with(b"application/json");
            }
            b"x-envoy-upstream-service-time" => self.timed_by_envoy = true,
            _ => {}
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

fn split_u32(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

/// The text of this length and what comes behind its NUL.
fn split_text(bytes: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    let (text, rest) = bytes.split_at_checked(len)?;
    let (_, rest) = rest.split_first()?;
    Some((text, rest))
}
