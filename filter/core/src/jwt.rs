//! A claim of a bearer token, read for routing only: nothing here verifies the token, which is
//! the part of Envoy's jwt_authn.

use crate::profile::{Api, Body, Piece, Scanner, StringReader};

/// Longer headers are not read; those of identity providers have 1 to 2 KB.
const MAX_HEADER_BYTES: usize = 8192;
const SCHEME: &[u8] = b"bearer ";

/// The claim of this name, if the value of an `authorization` header is a JWT whose payload has it
/// as a string that is not empty. If it is there twice, the last one counts.
pub fn claim(authorization: &[u8], name: &str) -> Option<String> {
    let (scheme, token) = authorization.split_at_checked(SCHEME.len())?;
    if authorization.len() > MAX_HEADER_BYTES || !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    // A payload with another dot in it is not base64.
    let is_dot = |byte: &u8| *byte == b'.';
    let start = token.iter().position(is_dot)? + 1;
    let payload = token.get(start..token.iter().rposition(is_dot)?)?;
    let payload = decode(payload)?;
    let mut scanner = Scanner::new(Api::Other);
    scanner.feed(&payload);
    (scanner.finish().body == Body::Complete).then(|| member(&payload, name.as_bytes()))?
}

/// Base64url without padding.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut bits: u32 = 0;
    let mut count = 0;
    for &letter in text {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    // A letter alone is not a byte.
    (count < 6).then_some(bytes)
}

/// The string of this name in an object that is known to be valid JSON.
fn member(object: &[u8], name: &[u8]) -> Option<String> {
    let mut rest = object;
    let mut depth = 0u32;
    let mut in_value = false;
    let mut is_named = false;
    let mut found = None;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => in_value = false,
            b':' if depth == 1 => {
                in_value = true;
                if is_named {
                    found = None;
                }
            }
            b'"' => {
                let text;
                (text, rest) = read_string(rest);
                if depth == 1 && !in_value {
                    is_named = text == name;
                } else if depth == 1 && is_named {
                    found = Some(text);
                }
            }
            _ => {}
        }
    }
    String::from_utf8(found?).ok().filter(|text| !text.is_empty())
}

/// What a string means, and what follows it.
fn read_string(mut rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut text = Vec::new();
    let mut reader = StringReader::default();
    while !rest.is_empty() {
        let piece;
        (piece, rest) = reader.next(rest);
        match piece {
            Piece::Text(more) => text.extend_from_slice(more),
            Piece::Character(character) => {
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Piece::Nothing => {}
            Piece::End | Piece::NotUtf8 | Piece::NotJson => break,
        }
    }
    (text, rest)
}
