//! Why an answer ended.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    /// The most tokens that it may have were reached.
    Length,
    /// It calls a tool.
    Tool,
    Other,
}

impl Finish {
    /// By the reason's first letter, which tells apart what the engines say: stop, stop_sequence,
    /// end_turn, eos_token; length, max_tokens, max_output_tokens, model_length; tool_calls,
    /// tool_use, function_call. An empty reason is none.
    pub(super) fn of(first_letter: u8) -> Option<Finish> {
        match first_letter {
            b'"' => None,
            b's' | b'e' => Some(Finish::Stop),
            b'l' | b'm' => Some(Finish::Length),
            b't' | b'f' => Some(Finish::Tool),
            _ => Some(Finish::Other),
        }
    }
}
