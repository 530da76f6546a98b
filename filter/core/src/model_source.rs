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
const MAX_SOURCES: usize = 4;

/// The places in their order, from a text such as "header:x-model,jwt:model,body"; None if it is
/// anything else.
pub fn parse_sources(text: &[u8]) -> Option<Vec<Source>> {
    let mut sources = Vec::new();
    for word in text.split(|&byte| byte == b',') {
        sources.push(source(word).filter(|_| sources.len() < MAX_SOURCES)?);
    }
    Some(sources)
}

fn source(word: &[u8]) -> Option<Source> {
    if word == b"body" {
        return Some(Source::Body);
    }
    if let Some(header) = word.strip_prefix(b"header:") {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let is_name = !header.is_empty() && header.iter().all(allowed);
        return is_name.then(|| string(&header.to_ascii_lowercase()).ok().map(Source::Header))?;
    }
    let claim = word.strip_prefix(b"jwt:")?;
    // Claims are often addresses, as https://example.org/model.
    let is_name = !claim.is_empty() && claim.iter().all(u8::is_ascii_graphic);
    is_name.then(|| string(claim).ok().map(Source::Jwt))?
}
