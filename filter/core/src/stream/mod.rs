//! Follows an answer while it passes: how many events of a stream carried output, what the last
//! usage says, and why it ended. Constant state, any chunking, every byte looked at once.
//!
//! It looks for underscores only, which an event has one to four of, and compares the bytes around
//! each. Chats and completions are counted by their `finish_reason`, which is in every event;
//! the other two APIs by the event's type. Before the first output it looks for braces as well, to
//! tell a `delta` with the role only from the first token. Inside of a JSON string quotes are
//! escaped, so text that an engine generates can pose as none of this.

mod find;
mod finish;
mod keys;
mod members;

pub use finish::Finish;

use find::Stops;
use keys::{value_of, Key};
use members::{Member, Next};

/// More digits than any token count has: no number of ours.
const MAX_DIGITS: u8 = 10;
/// So many bytes before a stop are enough for all that is compared; the longest is
/// `"type": "response.reasoning_summary`.
const BEHIND: usize = 40;

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Search,
    /// The rest of the key from this offset on.
    Rest(Key, u8),
    Colon(Key),
    /// The first byte of the value.
    Value(Key),
    /// The number, of which so many digits were seen.
    Digits(u8),
    /// The value of an object's first member, whatever that is called.
    OnlyMember(Key),
    /// The first byte of the reason.
    Reason(Key),
    /// The rest of a chat's delta.
    Member(Member),
}

/// Feed it the response body piece by piece.
#[derive(Clone, Copy, Debug)]
pub struct AnswerScanner {
    event_stream: bool,
    state: State,
    /// The bytes before the next piece.
    tail: [u8; BEHIND],
    number: u64,
    usage: Option<u64>,
    events: u64,
    events_since_usage: u64,
    /// The last delta had no output; known only before the first output.
    delta_is_empty: bool,
    /// A text that is not empty stood right before finish_reason.
    text_before_finish: bool,
    finish_reason: Option<Finish>,
    /// Anthropic's, or the status of the responses API. Where there is a finish_reason, stop_reason
    /// is something else: vLLM tells by it which of the client's stop texts was met.
    stop_reason: Option<Finish>,
    calls_tool: bool,
}

impl AnswerScanner {
    /// `event_stream`: by its content-type the answer is streamed.
    pub fn new(event_stream: bool) -> AnswerScanner {
        AnswerScanner {
            event_stream,
            state: State::Search,
            tail: [0; BEHIND],
            number: 0,
            usage: None,
            events: 0,
            events_since_usage: 0,
            delta_is_empty: false,
            text_before_finish: false,
            finish_reason: None,
            stop_reason: None,
            calls_tool: false,
        }
    }

    pub fn feed(&mut self, piece: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = piece.get(at) {
            if self.state == State::Search {
                let stops = match self.event_stream && self.events == 0 {
                    true => Stops::UNDERSCORE_OR_BRACE,
                    false => Stops::UNDERSCORE,
                };
                let Some(distance) = piece.get(at..).and_then(|rest| stops.find(rest)) else {
                    break;
                };
                at += distance;
                at += self.look_around(piece, at);
            } else {
                self.step(byte);
            }
            at += 1;
        }
        let mut joined = [0; BEHIND];
        let behind = self.behind(piece, piece.len(), &mut joined);
        self.tail = behind.try_into().unwrap_or(joined);
    }

    /// Events that carried output so far. Engines put several tokens into one under load.
    pub fn output_events(&self) -> u64 {
        self.events
    }

    /// What the last usage says, and the events with output that came after it: an answer that was
    /// cut has the usage of its beginning or none. None if there was neither.
    pub fn output_tokens(&self) -> Option<u64> {
        match self.usage {
            Some(usage) => Some(usage.saturating_add(self.events_since_usage)),
            None => Some(self.events).filter(|events| *events > 0),
        }
    }

    /// The last reason given; None while there is none.
    pub fn finish(&self) -> Option<Finish> {
        self.finish_reason.or(match self.stop_reason {
            Some(Finish::Stop) if self.calls_tool => Some(Finish::Tool),
            reason => reason,
        })
    }

    /// The BEHIND bytes before `at`; `joined` holds them if not all of them are in the piece.
    fn behind<'a>(&self, piece: &'a [u8], at: usize, joined: &'a mut [u8; BEHIND]) -> &'a [u8] {
        if let Some(from) = at.checked_sub(BEHIND) {
            return piece.get(from..at).unwrap_or_default();
        }
        let parts = joined.split_at_mut_checked(BEHIND - at);
        if let (Some((old, new)), Some(tail), Some(begun)) =
            (parts, self.tail.get(at..), piece.get(..at))
        {
            old.copy_from_slice(tail);
            new.copy_from_slice(begun);
        }
        joined
    }

    /// The search stopped here: is it something that counts? Says how many bytes behind the stop
    /// have been looked at.
    fn look_around(&mut self, piece: &[u8], at: usize) -> usize {
        let stop = piece.get(at);
        let [.., last] = self.tail;
        let before = at.checked_sub(1).map_or(Some(&last), |before| piece.get(before));
        let after = piece.get(at + 1).unwrap_or(&0);
        let possible = match stop {
            Some(b'_') => before.is_some_and(|before| Key::can_be_around(*before, *after)),
            Some(b'{') => matches!(before, Some(b':' | b' ')),
            _ => false,
        };
        if !possible {
            return 0;
        }
        let mut joined = [0; BEHIND];
        let behind = self.behind(piece, at, &mut joined);
        match stop {
            Some(b'_') => {
                let Some(key) = Key::ending(behind) else { return 0 };
                let ahead = piece.get(at + 1..).unwrap_or_default();
                if key == Key::FinishReason {
                    // As in every event but the last one: nothing more to see.
                    const NULL: &[u8] = b"reason\":null";
                    if ahead.starts_with(NULL) {
                        self.choice_goes_on();
                        return NULL.len();
                    }
                    self.text_before_finish = text_ends(behind);
                }
                if ahead.starts_with(key.rest()) {
                    self.state = self.key_ends(key);
                    return key.rest().len();
                }
                self.state = State::Rest(key, 0);
            }
            Some(b'{') if value_of(behind, b"\"delta\":") => {
                self.state = State::Member(Member::Start);
            }
            _ => {}
        }
        0
    }

    /// An event of a chat or completion that is not its last one.
    fn choice_goes_on(&mut self) {
        if !core::mem::take(&mut self.delta_is_empty) {
            self.count_event();
        }
    }

    fn count_event(&mut self) {
        if self.event_stream {
            self.events += 1;
            self.events_since_usage += 1;
        }
    }
    /// Goes on if the byte is what is expected, else back to the search. The byte need not be
    /// searched again: nothing that is compared has such bytes before its stop.
    fn step(&mut self, byte: u8) {
        let blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            State::Rest(key, offset) if key.rest().get(usize::from(offset)) == Some(&byte) => {
                if usize::from(offset) + 1 < key.rest().len() {
                    State::Rest(key, offset + 1)
                } else {
                    self.key_ends(key)
                }
            }
            State::Colon(key) if byte == b':' => State::Value(key),
            State::OnlyMember(key) if byte == b':' => State::Value(key),
            State::OnlyMember(_) => self.state,
            State::Colon(_) | State::Value(_) if blank => self.state,
            State::Value(key) => self.value_begins(key, byte),
            State::Digits(count) if byte.is_ascii_digit() && count < MAX_DIGITS => {
                self.number = self.number * 10 + u64::from(byte - b'0');
                State::Digits(count + 1)
            }
            // A digit here is one too many; a point or an exponent makes it no count.
            State::Digits(_) if !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E') => {
                self.usage = Some(self.number);
                self.events_since_usage = 0;
                State::Search
            }
            State::Reason(key) => {
                let reason = Finish::of(byte);
                if key != Key::FinishReason {
                    self.stop_reason = reason.or(self.stop_reason);
                } else if reason.is_none() {
                    self.choice_goes_on();
                } else {
                    self.finish_reason = reason;
                    if self.text_before_finish {
                        self.choice_goes_on();
                    }
                }
                State::Search
            }
            State::Member(member) => match member.step(byte) {
                Next::More(member) => State::Member(member),
                Next::Over => State::Search,
                Next::Empty => {
                    self.delta_is_empty = true;
                    State::Search
                }
            },
            _ => State::Search,
        };
    }

    fn key_ends(&mut self, key: Key) -> State {
        match key {
            Key::FunctionCallType => self.calls_tool = true,
            Key::BlockDeltaType | Key::TextDeltaType | Key::ArgumentsDeltaType => {
                self.count_event();
            }
            _ => return State::Colon(key),
        }
        State::Search
    }

    fn value_begins(&mut self, key: Key, byte: u8) -> State {
        match (key, byte) {
            (Key::CompletionTokens | Key::OutputTokens, b'0'..=b'9') => {
                self.number = u64::from(byte - b'0');
                return State::Digits(1);
            }
            (Key::FinishReason | Key::StopReason | Key::IncompleteDetails, b'"') => {
                return State::Reason(key);
            }
            (Key::FinishReason, b'n') => self.choice_goes_on(),
            // {"reason": ...}
            (Key::IncompleteDetails, b'{') => return State::OnlyMember(key),
            // In a stream null also stands in the events before the first output.
            (Key::IncompleteDetails, b'n') if !self.event_stream || self.events > 0 => {
                self.stop_reason = Some(Finish::Stop);
            }
            _ => {}
        }
        State::Search
    }
}

/// Does a text that is not empty, as a delta's last member or a choice's, stand before
/// `"finish`, perhaps with no logprobs between them?
fn text_ends(behind: &[u8]) -> bool {
    let between: [&[u8]; 9] =
        [b"\"finish", b" ", b",", b"null", b" ", b"\"logprobs\":", b" ", b",", b"}"];
    let rest = between.iter().fold(behind, |rest, part| rest.strip_suffix(*part).unwrap_or(rest));
    rest.ends_with(b"\"") && !rest.ends_with(b":\"\"") && !rest.ends_with(b": \"\"")
}
