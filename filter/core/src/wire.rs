//! Protobuf's wire format, read and written by hand: the messages are few and flat, and generated
//! code with its runtime would cost more of the module's size than all of this crate.

/// Why bytes are not the message that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(&'static str);

impl DecodeError {
    pub(crate) const fn new(text: &'static str) -> DecodeError {
        DecodeError(text)
    }

    /// What is wrong, for a NACK or a log line.
    pub fn text(self) -> &'static str {
        self.0
    }
}

const TRUNCATED: DecodeError = DecodeError::new("message ends in the middle of a field");

/// One field's value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// Walks over a message's fields in order; a field that the caller does not match is skipped.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Reader<'a> {
        Reader { rest: message }
    }

    /// The next field's number and value; None at the end.
    pub fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = match u32::try_from(key >> 3) {
            Ok(number) if number > 0 => number,
            _ => return Err(DecodeError::new("invalid field number")),
        };
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(usize::try_from(len).map_err(|_| TRUNCATED)?)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(DecodeError::new("invalid wire type")),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::new("varint of more than 10 bytes"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(*head)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(head)
    }
}

/// A string field's value.
pub fn string(bytes: &[u8]) -> Result<String, DecodeError> {
    match core::str::from_utf8(bytes) {
        Ok(text) => Ok(String::from(text)),
        Err(_) => Err(DecodeError::new("string is not UTF-8")),
    }
}

/// Sets a string field.
#[inline(never)]
pub fn set_string(place: &mut String, bytes: &[u8]) -> Result<(), DecodeError> {
    *place = string(bytes)?;
    Ok(())
}

/// Adds an element of a repeated string field.
#[inline(never)]
pub fn push_string(places: &mut Vec<String>, bytes: &[u8]) -> Result<(), DecodeError> {
    places.push(string(bytes)?);
    Ok(())
}

/// Appends a repeated float field's value, packed or one by one; other wire types are unknown
/// fields and add nothing.
pub fn floats(value: Value, out: &mut Vec<f32>) -> Result<(), DecodeError> {
    match value {
        Value::Fixed32(bits) => out.push(f32::from_bits(bits)),
        Value::Bytes(packed) => {
            if packed.len() % 4 != 0 {
                return Err(DecodeError::new("packed floats of a length that is not 4 n"));
            }
            out.reserve(packed.len() / 4);
            for bytes in packed.chunks_exact(4) {
                if let &[a, b, c, d] = bytes {
                    out.push(f32::from_le_bytes([a, b, c, d]));
                }
            }
        }
        Value::Varint(_) | Value::Fixed64(_) => {}
    }
    Ok(())
}

/// Appends a repeated uint32 field's value, packed or one by one.
pub fn uints(value: Value, out: &mut Vec<u32>) -> Result<(), DecodeError> {
    match value {
        Value::Varint(number) => out.push(number as u32),
        Value::Bytes(packed) => {
            let mut reader = Reader::new(packed);
            while !reader.rest.is_empty() {
                out.push(reader.varint()? as u32);
            }
        }
        Value::Fixed32(_) | Value::Fixed64(_) => {}
    }
    Ok(())
}

/// Appends a repeated fixed64 field's value, packed or one by one.
pub fn longs(value: Value, out: &mut Vec<u64>) -> Result<(), DecodeError> {
    match value {
        Value::Fixed64(number) => out.push(number),
        Value::Bytes(packed) => {
            let mut reader = Reader::new(packed);
            while !reader.rest.is_empty() {
                out.push(u64::from_le_bytes(reader.array()?));
            }
        }
        Value::Varint(_) | Value::Fixed32(_) => {}
    }
    Ok(())
}

/// Appends a varint field; a zero is proto3's default and is not written.
pub fn put_varint(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        raw_varint(out, u64::from(field) << 3);
        raw_varint(out, value);
    }
}

/// Appends a fixed64 field; a zero is not written.
pub fn put_fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        raw_varint(out, u64::from(field) << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Appends a string or bytes field; an empty one is not written.
pub fn put_string(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    if !value.is_empty() {
        put_bytes(out, field, value);
    }
}

/// Appends a message or an element of a repeated field: written also when it is empty.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    raw_varint(out, u64::from(field) << 3 | 2);
    raw_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn raw_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
