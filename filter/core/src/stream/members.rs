//! Reads the members of a chat's `delta`: is any of them output, or is it empty or has only a role?
//! Strings are read as JSON, so that generated text cannot pose as a member.

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// A name's quote.
    Start,
    FirstLetter,
    SecondLetter(u8),
    /// The rest of a name, then the colon and the value. `output`: of a member that is output.
    Name {
        output: bool,
    },
    Colon {
        output: bool,
    },
    Value {
        output: bool,
    },
    /// The first byte of a string that is output, unless it is empty.
    Text,
    /// The first byte of an array that is output, unless it is empty.
    List,
    /// The rest of another string.
    Skipped,
    SkippedEscape,
    /// The rest of null.
    Null,
}

pub(super) enum Next {
    More(Member),
    /// The object has no output.
    Empty,
    /// It has, or it cannot be told.
    Over,
}

impl Member {
    pub fn step(self, byte: u8) -> Next {
        Next::More(match (self, byte) {
            (_, b'\n') => return Next::Over,
            (Member::Start, b' ' | b',') => Member::Start,
            (Member::Start, b'"') => Member::FirstLetter,
            (Member::FirstLetter, _) => Member::SecondLetter(byte),
            (Member::SecondLetter(first), _) => match [first, byte] {
                // role
                [b'r', b'o'] => Member::Name { output: false },
                // content, reasoning_content, reasoning, refusal, tool_calls, function_call
                [b'c', b'o'] | [b'r', b'e'] | [b't', b'o'] | [b'f', b'u'] => {
                    Member::Name { output: true }
                }
                // Before its underscore: Anthropic's stop_reason is found by the search.
                _ => return Next::Over,
            },
            (Member::Name { output }, b'"') => Member::Colon { output },
            (Member::Name { .. }, _) => self,
            (Member::Colon { output }, b':') => Member::Value { output },
            (Member::Value { .. }, b' ') => self,
            (Member::Value { output: true }, b'"') => Member::Text,
            (Member::Value { output: true }, b'[') => Member::List,
            (Member::Value { output: false }, b'"') => Member::Skipped,
            (Member::Value { .. }, b'n') => Member::Null,
            (Member::Text, b'"') | (Member::List, b']') => Member::Start,
            (Member::Skipped, b'"') => Member::Start,
            (Member::Skipped, b'\\') => Member::SkippedEscape,
            (Member::Skipped | Member::SkippedEscape, _) => Member::Skipped,
            (Member::Null, b'u' | b'l') => self,
            (Member::Null, b',') => Member::Start,
            (Member::Start | Member::Null, b'}') => return Next::Empty,
            _ => return Next::Over,
        })
    }
}
