//! Where the name of a request's model or user is looked for, as the configuration says it.

use crate::wire::string;

/// One place to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The header of this name, in small letters.
    Header(String),
    /// This claim of the bearer token.
    Jwt(String),
    /// The body's own field.
    Body,
}

/// What `parse_sources` takes, for the text of an error.
pub const ALLOWED_SOURCES: &str =
    "one to four of header:<name>, jwt:<claim> and body, with commas between";
pub(crate) const MAX_SOURCES: usize = 4;

/// The places in their order, from a text such as "header:x-model,jwt:model,body"; None if it is
/// anything else.
pub fn parse_sources(text: &[u8]) -> Option<Vec<Source>> {
    let mut sources = Vec::new();
    for word in text.split(|&byte| byte == b',') {
        sources.push(source(word)?);
    }
    (sources.len() <= MAX_SOURCES).then_some(sources)
}

fn source(word: &[u8]) -> Option<Source> {
    if word == b"body" {
        return Some(Source::Body);
    }
    // Claims are often addresses, as https://example.org/model.
    let (kind, name) = word.split_at_checked(word.iter().position(|&byte| byte == b':')? + 1)?;
    let is_header = kind == b"header:";
    // Envoy has no header with a capital.
    let fits = |byte: &u8| byte.is_ascii_graphic() && !(is_header && byte.is_ascii_uppercase());
    if name.is_empty() || !name.iter().all(fits) || !is_header && kind != b"jwt:" {
        return None;
    }
    string(name).ok().map(if is_header { Source::Header } else { Source::Jwt })
}
