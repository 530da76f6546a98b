//! One pass over a request's body as it arrives, in chunks of any size: JSON's grammar. Nothing of
//! the body is kept, so that its size costs no memory.

use super::gather::Gathered;
use super::joined::Joined;
use super::number::Number;
use super::shapes::{Api, Meaning};
use super::stack::Stack;
use super::strings::{Piece, StringReader};
use super::{Body, Fault, Profile};

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Value,
    /// A value, or the end of the array.
    FirstElement,
    Key,
    /// A key, or the end of the object.
    FirstKey,
    Colon,
    /// A comma, or the end of the array or object.
    AfterValue,
    InKey,
    InString,
    InNumber,
    InLiteral(Literal),
    /// Nothing but blanks.
    End,
    /// Nothing is read any more.
    Stopped(Body),
}

/// True, false or null, of which `rest` has not been read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Literal {
    rest: &'static [u8],
    whole: &'static [u8],
    value: Option<bool>,
}

impl Literal {
    const ALL: [Literal; 3] = [
        Literal { rest: b"true", whole: b"true", value: Some(true) },
        Literal { rest: b"false", whole: b"false", value: Some(false) },
        Literal { rest: b"null", whole: b"null", value: None },
    ];

    /// What is left behind this character; None if it is another one.
    fn after(self, byte: u8) -> Option<Literal> {
        let (first, rest) = self.rest.split_first()?;
        (*first == byte).then_some(Literal { rest, ..self })
    }
}

/// Reads a request's body chunk by chunk.
#[derive(Clone, Debug)]
pub struct Scanner {
    state: State,
    stack: Stack,
    /// What the value is that comes next or is being read.
    meaning: Meaning,
    string: StringReader,
    number: Number,
    gathered: Gathered,
}

impl Scanner {
    pub fn new(api: Api) -> Scanner {
        Scanner {
            state: State::Start,
            stack: Stack::default(),
            meaning: Meaning::Request,
            string: StringReader::default(),
            number: Number::default(),
            gathered: Gathered::new(api),
        }
    }

    /// Takes the next chunk.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut joined = Joined::default();
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match self.state {
                State::Stopped(_) => return,
                State::InKey | State::InString => self.string(rest, &mut joined),
                State::InNumber => self.number(rest),
                State::InLiteral(literal) => {
                    self.literal(literal, byte);
                    after
                }
                _ => {
                    if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                        self.structure(byte);
                    }
                    after
                }
            };
        }
    }

    /// Would more of the body change nothing?
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped(_))
    }

    /// What is known of the request so far; more can be fed after it.
    pub fn finish(&self) -> Profile {
        let mut profile = self.gathered.profile(match self.state {
            State::Stopped(body) => body,
            State::End => Body::Complete,
            _ => Body::Partial,
        });
        profile.ends_in_medium = self.state == State::InString && self.meaning == Meaning::Media;
        profile
    }

    fn fail(&mut self, fault: Fault) {
        self.state = State::Stopped(Body::Malformed(fault));
    }

    fn structure(&mut self, byte: u8) {
        let outside = self.stack.top();
        let in_object = self.stack.in_object();
        match (self.state, byte) {
            (State::Start, b'{') => self.open(true),
            (State::Start, _) => self.state = State::Stopped(Body::NotJson),
            (State::FirstKey | State::Key, b'"') => {
                self.gathered.begin_key();
                self.string = StringReader::default();
                self.state = State::InKey;
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::AfterValue, b',') if in_object => self.state = State::Key,
            (State::AfterValue, b',') => {
                self.meaning = outside.element();
                self.state = State::Value;
            }
            (State::AfterValue | State::FirstKey, b'}') if in_object => self.close(),
            (State::AfterValue | State::FirstElement, b']') if !in_object => self.close(),
            (State::Value | State::FirstElement, _) => self.begin_value(byte),
            _ => self.fail(Fault::Syntax),
        }
        if outside.is_verbatim() || self.stack.top().is_verbatim() {
            self.gathered.syntax(byte);
        }
    }

    fn begin_value(&mut self, byte: u8) {
        match byte {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => {
                self.gathered.begin_string(self.meaning);
                self.string = StringReader::default();
                self.state = State::InString;
            }
            b'-' | b'0'..=b'9' => {
                self.number = Number::new();
                self.state = State::InNumber;
                self.number(&[byte]);
            }
            _ => {
                let literal = Literal::ALL.iter().find_map(|literal| literal.after(byte));
                match literal {
                    Some(literal) => self.state = State::InLiteral(literal),
                    None => self.fail(Fault::Syntax),
                }
            }
        }
    }

    fn open(&mut self, is_object: bool) {
        let meaning = if is_object { self.meaning.as_object() } else { self.meaning.as_array() };
        if !self.stack.push(meaning, is_object) {
            return self.fail(Fault::TooDeep);
        }
        self.gathered.opened(meaning);
        if is_object {
            self.state = State::FirstKey;
        } else {
            self.meaning = meaning.element();
            self.state = State::FirstElement;
        }
    }

    fn close(&mut self) {
        let meaning = self.stack.pop();
        self.gathered.closed(meaning);
        self.value_ended();
    }

    fn value_ended(&mut self) {
        self.state = if self.stack.is_empty() { State::End } else { State::AfterValue };
    }

    /// Reads the string on, to its end or that of the bytes; leaves `joined` empty.
    fn string<'a>(&mut self, mut bytes: &'a [u8], joined: &mut Joined) -> &'a [u8] {
        loop {
            let (piece, rest) = self.string.next(bytes);
            match piece {
                Piece::Text(text) if joined.is_empty() && rest.first() != Some(&b'\\') => {
                    self.text(text);
                }
                Piece::Text(text) => self.join(joined, bytes, text.len()),
                Piece::Character(character) => {
                    let mut utf8 = [0; 4];
                    let len = character.encode_utf8(&mut utf8).len();
                    self.join(joined, &utf8, len);
                }
                Piece::Nothing => {}
                end => {
                    self.end_join(joined);
                    self.end_string(end);
                    return rest;
                }
            }
            if rest.is_empty() {
                self.end_join(joined);
                return rest;
            }
            bytes = rest;
        }
    }

    fn end_string(&mut self, end: Piece) {
        match end {
            Piece::NotUtf8 => self.fail(Fault::NotUtf8),
            Piece::End if self.state == State::InKey => {
                self.meaning = self.gathered.end_key(&mut self.stack);
                self.state = State::Colon;
            }
            Piece::End => {
                self.gathered.end_string(self.meaning, &mut self.stack);
                self.value_ended();
            }
            _ => self.fail(Fault::Syntax),
        }
    }

    fn text(&mut self, text: &[u8]) {
        match self.state {
            State::InKey => self.gathered.key_text(self.stack.top(), text),
            _ => self.gathered.string_text(self.meaning, text),
        }
    }

    /// Takes the first `len` of these bytes as a part of a text.
    fn join(&mut self, joined: &mut Joined, bytes: &[u8], len: usize) {
        if !joined.push(bytes, len) {
            self.end_join(joined);
            if !joined.push(bytes, len) {
                self.text(bytes.get(..len).unwrap_or_default());
            }
        }
    }

    fn end_join(&mut self, joined: &mut Joined) {
        if !joined.is_empty() {
            self.text(joined.take());
        }
    }

    /// Reads the number on, as far as these bytes are one; what ends it is left.
    fn number<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let in_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let len = bytes.iter().take_while(|byte| in_number(byte)).count();
        let (text, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
        let valid = text.iter().take_while(|byte| self.number.push(**byte)).count();
        self.gathered.number_text(self.meaning, text.get(..valid).unwrap_or_default());
        if valid < len || !(rest.is_empty() || self.number.is_complete()) {
            self.fail(Fault::Syntax);
        } else if !rest.is_empty() {
            self.gathered.end_number(self.meaning, self.number.whole());
            self.value_ended();
        }
        rest
    }

    fn literal(&mut self, literal: Literal, byte: u8) {
        match literal.after(byte) {
            Some(literal) if literal.rest.is_empty() => {
                self.gathered.literal(self.meaning, literal.whole, literal.value);
                self.value_ended();
            }
            Some(literal) => self.state = State::InLiteral(literal),
            None => self.fail(Fault::Syntax),
        }
    }
}
