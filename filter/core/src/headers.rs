//! proxy-wasm's form of a header map: the number of headers, the lengths of each name and value,
//! then all of them, each ended by NUL. Envoy hands over all headers in one piece, because each
//! look-up would cost as much again.

/// The headers in their order. What does not fit the form is not there.
pub(crate) struct Headers<'a> {
    lengths: &'a [u8],
    texts: &'a [u8],
}

impl<'a> Headers<'a> {
    pub(crate) fn read(pairs: &'a [u8]) -> Headers<'a> {
        let split = split_u32(pairs)
            .and_then(|(count, lengths)| lengths.split_at_checked(count.saturating_mul(8)));
        let (lengths, texts) = split.unwrap_or_default();
        Headers { lengths, texts }
    }
}

impl<'a> Iterator for Headers<'a> {
    /// Name and value.
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name_len, rest) = split_u32(self.lengths)?;
        let (value_len, lengths) = split_u32(rest)?;
        let (name, rest) = split_text(self.texts, name_len)?;
        let (value, texts) = split_text(rest, value_len)?;
        (self.lengths, self.texts) = (lengths, texts);
        Some((name, value))
    }
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
