//! The inside of a JSON string as it arrives: the text that it means, in pieces.

use std::str::from_utf8;

use super::sixteen::{Flags, Sixteen};

/// A piece of what a string means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Text as it stands, whole characters.
    Text(&'a [u8]),
    /// A character that was written as an escape or cut in two.
    Character(char),
    /// Nothing yet: the string goes on.
    Nothing,
    End,
    NotUtf8,
    /// An escape or a control character that no JSON string has.
    NotJson,
}

/// Where within a string the reading stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    Backslash,
    /// In \uXXXX: how many digits were read, and their value.
    Hex(u8, u16),
    /// In a character of several bytes that was cut: so many of `cut` are there.
    Cut(u8),
    /// Behind an escape that is given out after what was before it.
    Held(char),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StringReader {
    at: At,
    cut: [u8; 4],
    /// The first half of a character that is written as two escapes.
    high: Option<u16>,
}

/// A half without its other half stands for nothing; Python's parser lets it pass.
const LONE_HALF: Piece<'static> = Piece::Character(char::REPLACEMENT_CHARACTER);

impl StringReader {
    /// Reads on. At the end of the bytes come Nothing or a last piece, with no rest.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> (Piece<'a>, &'a [u8]) {
        let Some((&byte, rest)) = bytes.split_first() else { return (Piece::Nothing, bytes) };
        match self.at {
            At::Text if byte == b'\\' => match rest.split_first() {
                // Nearly always it is one of these, and it is whole.
                Some((&next, rest)) if next != b'u' && self.high.is_none() => {
                    (escaped(next).map_or(Piece::NotJson, Piece::Character), rest)
                }
                Some((b'u', [a, b, c, d, rest @ ..])) => (self.hex_digits([*a, *b, *c, *d]), rest),
                _ => {
                    self.at = At::Backslash;
                    (Piece::Nothing, rest)
                }
            },
            // The second half can only come behind a backslash.
            At::Text if self.high.take().is_some() => (LONE_HALF, bytes),
            At::Text if byte == b'"' => (Piece::End, rest),
            At::Text if byte < b' ' => (Piece::NotJson, rest),
            At::Text => self.plain(bytes),
            At::Backslash if byte == b'u' => {
                self.at = At::Hex(0, 0);
                (Piece::Nothing, rest)
            }
            At::Backslash if self.high.take().is_some() => (LONE_HALF, bytes),
            At::Backslash => {
                self.at = At::Text;
                (escaped(byte).map_or(Piece::NotJson, Piece::Character), rest)
            }
            At::Hex(count, value) => (self.hex(byte, count, value), rest),
            At::Cut(len) => (self.rejoin(byte, len), rest),
            At::Held(character) => {
                self.at = At::Text;
                (Piece::Character(character), bytes)
            }
        }
    }

    /// The longest text without an escape at the beginning of these bytes, of which there is some.
    fn plain<'a>(&mut self, bytes: &'a [u8]) -> (Piece<'a>, &'a [u8]) {
        let (len, ascii) = plain_len(bytes);
        let (text, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
        let Some(error) = (!ascii).then(|| from_utf8(text).err()).flatten() else {
            return (Piece::Text(text), rest);
        };
        match text.split_at_checked(error.valid_up_to()) {
            // What is right comes first; the next call finds the error at its beginning.
            Some((valid @ [_, ..], _)) => {
                let rest = bytes.get(valid.len()..).unwrap_or_default();
                (Piece::Text(valid), rest)
            }
            _ if error.error_len().is_some() => (Piece::NotUtf8, rest),
            // Cut by the chunk's end, or by what ends the text, which then fails to complete it.
            _ => {
                self.cut.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
                self.at = At::Cut(text.len() as u8);
                (Piece::Nothing, rest)
            }
        }
    }

    fn rejoin(&mut self, byte: u8, len: u8) -> Piece<'static> {
        let len = usize::from(len);
        if let Some(place) = self.cut.get_mut(len) {
            *place = byte;
        }
        match from_utf8(self.cut.get(..=len).unwrap_or_default()) {
            Ok(text) => {
                self.at = At::Text;
                text.chars().next().map_or(Piece::NotUtf8, Piece::Character)
            }
            Err(error) if error.error_len().is_none() && len < 3 => {
                self.at = At::Cut(len as u8 + 1);
                Piece::Nothing
            }
            Err(_) => Piece::NotUtf8,
        }
    }

    fn hex(&mut self, byte: u8, count: u8, value: u16) -> Piece<'static> {
        let Some(value) = with_digit(value, byte) else { return Piece::NotJson };
        if count < 3 {
            self.at = At::Hex(count + 1, value);
            return Piece::Nothing;
        }
        self.unit(value)
    }

    fn hex_digits(&mut self, digits: [u8; 4]) -> Piece<'static> {
        let value = digits.into_iter().try_fold(0, with_digit);
        value.map_or(Piece::NotJson, |value| self.unit(value))
    }

    /// A character, or half of one.
    fn unit(&mut self, value: u16) -> Piece<'static> {
        self.at = At::Text;
        match (self.high.take(), value) {
            (Some(high), 0xdc00..=0xdfff) => {
                let code = 0x10000 + (u32::from(high - 0xd800) << 10) + u32::from(value - 0xdc00);
                char::from_u32(code).map_or(LONE_HALF, Piece::Character)
            }
            (before, 0xd800..=0xdbff) => {
                self.high = Some(value);
                if before.is_some() {
                    LONE_HALF
                } else {
                    Piece::Nothing
                }
            }
            (before, _) => {
                let character = char::from_u32(u32::from(value));
                let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                if before.is_none() {
                    return Piece::Character(character);
                }
                self.at = At::Held(character);
                LONE_HALF
            }
        }
    }
}

fn with_digit(value: u16, digit: u8) -> Option<u16> {
    Some(value << 4 | char::from(digit).to_digit(16)? as u16)
}

fn escaped(byte: u8) -> Option<char> {
    Some(match byte {
        b'"' | b'\\' | b'/' => char::from(byte),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    })
}

/// How many bytes there are before the first quote, backslash or control character, and whether
/// all of them are ASCII.
fn plain_len(bytes: &[u8]) -> (usize, bool) {
    let mut not_ascii = Flags::NONE;
    let mut passed = 0;
    // Most of a long text; what has an end is looked at again.
    for pair in bytes.chunks_exact(32) {
        let (first, second) = pair.split_at_checked(16).unwrap_or_default();
        let (first, second) = (Sixteen::load(first), Sixteen::load(second));
        if first.ends_of_text().or(second.ends_of_text()).bits() != 0 {
            break;
        }
        not_ascii = not_ascii.or(first.not_ascii()).or(second.not_ascii());
        passed += 32;
    }
    let (_, bytes) = bytes.split_at_checked(passed).unwrap_or_default();
    let mut sixteens = bytes.chunks_exact(16);
    for (index, sixteen) in sixteens.by_ref().enumerate() {
        let sixteen = Sixteen::load(sixteen);
        let ends = sixteen.ends_of_text().bits();
        if ends != 0 {
            let place = ends.trailing_zeros();
            let before = sixteen.not_ascii().bits() & !(u32::MAX << place);
            return (passed + index * 16 + place as usize, not_ascii.bits() | before == 0);
        }
        not_ascii = not_ascii.or(sixteen.not_ascii());
    }
    let rest = sixteens.remainder();
    let end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    let len = rest.iter().position(end).unwrap_or(rest.len());
    let ascii = not_ascii.bits() == 0 && rest.iter().take(len).all(u8::is_ascii);
    (passed + bytes.len() - rest.len() + len, ascii)
}
