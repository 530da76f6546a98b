//! What the scanner looks for, around the underscore at which each is noticed.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    CompletionTokens,
    OutputTokens,
    FinishReason,
    StopReason,
    IncompleteDetails,
    /// Of an item of the responses API.
    FunctionCallType,
    /// Of an event: Anthropic's, and the responses API's two kinds.
    BlockDeltaType,
    TextDeltaType,
    ArgumentsDeltaType,
}

impl Key {
    /// Tells most underscores by the bytes around them to be in none of these. 0 = not known.
    pub fn can_be_around(before: u8, after: u8) -> bool {
        match before {
            b'h' | b'p' => matches!(after, b'r' | 0),
            b'n' => matches!(after, b't' | b'c' | 0),
            b't' | b'g' | b'y' => matches!(after, b't' | 0),
            b'e' | b'k' => matches!(after, b'd' | 0),
            b'l' => matches!(after, b'a' | 0),
            _ => false,
        }
    }

    /// The key of which these bytes are what stands before its underscore.
    pub fn ending(before: &[u8]) -> Option<Key> {
        let (key, text): (Key, &[u8]) = match before.last()? {
            b'h' => (Key::FinishReason, b"\"finish"),
            b'p' => (Key::StopReason, b"\"stop"),
            b'e' => (Key::IncompleteDetails, b"\"incomplete"),
            b't' if before.ends_with(b"\"output") => return Some(Key::OutputTokens),
            b'n' if before.ends_with(b"\"completion") => return Some(Key::CompletionTokens),
            b'n' => return type_ends(before, b"\"function", Key::FunctionCallType),
            b'k' => return type_ends(before, b"\"content_block", Key::BlockDeltaType),
            b't' => return type_ends(before, b"\"response.output", Key::TextDeltaType),
            b'g' => return type_ends(before, b"\"response.reasoning", Key::TextDeltaType),
            b'y' => return type_ends(before, b"\"response.reasoning_summary", Key::TextDeltaType),
            b'l' => return type_ends(before, b"\"response.function_call", Key::ArgumentsDeltaType),
            _ => return None,
        };
        before.ends_with(text).then_some(key)
    }

    /// What must follow the underscore.
    pub fn rest(self) -> &'static [u8] {
        match self {
            Key::CompletionTokens | Key::OutputTokens => b"tokens\"",
            Key::FinishReason | Key::StopReason => b"reason\"",
            Key::IncompleteDetails => b"details\"",
            Key::FunctionCallType => b"call\"",
            Key::BlockDeltaType => b"delta\"",
            Key::TextDeltaType => b"text.delta\"",
            Key::ArgumentsDeltaType => b"arguments.delta\"",
        }
    }
}

fn type_ends(before: &[u8], text: &[u8], key: Key) -> Option<Key> {
    before.strip_suffix(text).is_some_and(|before| value_of(before, b"\"type\":")).then_some(key)
}

/// Is what comes behind these bytes the value of that name?
pub(super) fn value_of(before: &[u8], name: &[u8]) -> bool {
    before.strip_suffix(b" ").unwrap_or(before).ends_with(name)
}
