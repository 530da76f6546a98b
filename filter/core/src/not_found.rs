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

/// Appends a text as it stands in a JSON string. A control character becomes a blank; what is not
/// UTF-8 loses all that is not ASCII.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let is_text = from_utf8(text).is_ok();
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(match byte {
            ..b' ' => b' ',
            0x80.. if !is_text => b'?',
            _ => byte,
        });
    }
}
