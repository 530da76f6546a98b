//! The answer to a request for a model that no node serves, in OpenAI's shape.

use core::str::from_utf8;

/// No name of a model is longer.
const MAX_NAME_BYTES: usize = 256;
/// As many names help; more are for the list of models.
const MAX_SERVED: usize = 20;

/// The body of the 404: the model that was asked for, and what is served.
pub fn not_found_body(asked: &[u8], served: &mut dyn Iterator<Item = &str>) -> Vec<u8> {
    let mut body = br#"{"error":{"message":"The model '"#.to_vec();
    put_text(&mut body, asked.get(..MAX_NAME_BYTES).unwrap_or(asked));
    body.extend_from_slice(b"' does not exist. Served here: ");
    for (index, name) in served.take(MAX_SERVED).enumerate() {
        if index > 0 {
            body.extend_from_slice(b", ");
        }
        put_text(&mut body, name.as_bytes());
    }
    body.extend_from_slice(
        br#"","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#,
    );
    body
}

/// Appends a text as it stands in a JSON string; what is not UTF-8 becomes U+FFFD.
fn put_text(out: &mut Vec<u8>, mut text: &[u8]) {
    while !text.is_empty() {
        let (valid, invalid) = match from_utf8(text) {
            Ok(_) => (text.len(), 0),
            Err(error) => (error.valid_up_to(), error.error_len().unwrap_or(text.len())),
        };
        let (known, rest) = text.split_at_checked(valid).unwrap_or((text, &[]));
        known.iter().for_each(|&byte| put_byte(out, byte));
        if invalid > 0 {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
        text = rest.get(invalid..).unwrap_or_default();
    }
}

fn put_byte(out: &mut Vec<u8>, byte: u8) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        ..b' ' => {
            let digit = HEX.get(usize::from(byte % 16)).copied().unwrap_or_default();
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + byte / 16, digit]);
        }
        _ => out.push(byte),
    }
}
