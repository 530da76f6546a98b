//! What each part of a request means, by where it stands: the shapes of the APIs.

/// The API that a request is for. It says where the prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's `/v1/chat/completions`.
    ChatCompletions,
    /// OpenAI's `/v1/completions`.
    Completions,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// OpenAI's `/v1/embeddings`.
    Embeddings,
    /// Anthropic's `/v1/messages`.
    Messages,
    /// Any other: the model, the user and whether to stream are read, no prompt.
    Other,
}

use Api::{ChatCompletions, Completions, Embeddings, Messages, Other, Responses};

impl Api {
    /// By the end of the path, so that any prefix may stand before it; a query does not count.
    pub fn of_path(path: &[u8]) -> Api {
        const ENDS: &[(&[u8], Api)] = &[
            (b"/chat/completions", ChatCompletions),
            (b"/completions", Completions),
            (b"/responses", Responses),
            (b"/embeddings", Embeddings),
            (b"/messages", Messages),
        ];
        let path = path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        ENDS.iter().find(|(end, _)| path.ends_with(end)).map_or(Other, |(_, api)| *api)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a value is, whatever type it turns out to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Meaning {
    #[default]
    Ignored,
    /// The request itself.
    Request,
    Model,
    Stream,
    MaxTokens,
    /// The newer name, which wins.
    MaxCompletionTokens,
    Choices,
    User,
    /// The newer name for the user, which wins.
    SafetyIdentifier,
    CacheKey,
    /// Anthropic's, of which the user is a member.
    Metadata,
    /// What comes before the messages: a text or a list of parts.
    System,
    /// A list of messages.
    Messages,
    /// A text, or a list of messages.
    Input,
    /// A text, a list of texts, token ids, or lists of those.
    Prompt,
    /// All within is text: names, strings, numbers. So is Verbatim, in a message.
    Tools,
    Message,
    Role,
    /// Of a message or a part: a text, a part or a list of those.
    Content,
    Part,
    PartType,
    Text,
    Verbatim,
    /// What a part shows or plays: never text, but the prompt depends on it.
    Media,
}

/// The members of a request that are read, and the APIs that have them.
const REQUEST: &[(&[u8], Meaning, u8)] = &[
    (b"model", Meaning::Model, ANY),
    (b"stream", Meaning::Stream, ANY),
    (b"messages", Meaning::Messages, ChatCompletions.bit() | Messages.bit()),
    (b"user", Meaning::User, ANY),
    (b"safety_identifier", Meaning::SafetyIdentifier, ANY),
    (b"prompt_cache_key", Meaning::CacheKey, ANY),
    (b"metadata", Meaning::Metadata, Messages.bit()),
    (b"max_tokens", Meaning::MaxTokens, ChatCompletions.bit() | Completions.bit() | Messages.bit()),
    (b"max_completion_tokens", Meaning::MaxCompletionTokens, ChatCompletions.bit()),
    (b"max_output_tokens", Meaning::MaxCompletionTokens, Responses.bit()),
    (b"n", Meaning::Choices, ChatCompletions.bit() | Completions.bit()),
    (b"system", Meaning::System, Messages.bit()),
    (b"instructions", Meaning::System, Responses.bit()),
    (b"input", Meaning::Input, Responses.bit()),
    (b"input", Meaning::Prompt, Embeddings.bit()),
    (b"prompt", Meaning::Prompt, Completions.bit()),
    (b"tools", Meaning::Tools, ChatCompletions.bit() | Responses.bit() | Messages.bit()),
];
const ANY: u8 = u8::MAX;

const METADATA: &[(&[u8], Meaning)] = &[(b"user_id", Meaning::User)];

const MESSAGE: &[(&[u8], Meaning)] = &[
    (b"role", Meaning::Role),
    (b"content", Meaning::Content),
    (b"output", Meaning::Content),
    (b"name", Meaning::Text),
    (b"arguments", Meaning::Text),
    (b"tool_calls", Meaning::Verbatim),
    (b"function_call", Meaning::Verbatim),
    (b"input", Meaning::Verbatim),
];

const PART: &[(&[u8], Meaning)] = &[
    (b"type", Meaning::PartType),
    (b"text", Meaning::Text),
    (b"name", Meaning::Text),
    (b"content", Meaning::Content),
    (b"input", Meaning::Verbatim),
    (b"source", Meaning::Media),
    (b"image_url", Meaning::Media),
    (b"input_audio", Meaning::Media),
    (b"audio_url", Meaning::Media),
    (b"video_url", Meaning::Media),
    (b"file", Meaning::Media),
    (b"file_data", Meaning::Media),
    (b"file_url", Meaning::Media),
];

fn find<T: Copy>(table: &[(&[u8], T)], name: &[u8]) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, found)| *found)
}

impl Meaning {
    /// What a member of this object is.
    pub fn member(self, api: Api, key: &[u8]) -> Meaning {
        let table = match self {
            Meaning::Request => {
                let mut known = REQUEST.iter().filter(|(_, _, apis)| apis & api.bit() != 0);
                let found = known.find(|(known, _, _)| *known == key);
                return found.map_or(Meaning::Ignored, |(_, meaning, _)| *meaning);
            }
            Meaning::Tools | Meaning::Verbatim | Meaning::Media => return self,
            Meaning::Message => MESSAGE,
            Meaning::Part => PART,
            Meaning::Metadata => METADATA,
            _ => &[],
        };
        find(table, key).unwrap_or_default()
    }

    /// What an element of this array is.
    pub fn element(self) -> Meaning {
        match self {
            Meaning::Messages | Meaning::Input => Meaning::Message,
            Meaning::System | Meaning::Content => Meaning::Part,
            Meaning::Prompt | Meaning::Tools | Meaning::Verbatim | Meaning::Media => self,
            _ => Meaning::Ignored,
        }
    }

    /// What this is if it is an array.
    pub fn as_array(self) -> Meaning {
        use Meaning::{Content, Input, Media, Messages, Prompt, System, Tools, Verbatim};
        match self {
            Messages | Input | Prompt | System | Content | Tools | Verbatim | Media => self,
            _ => Meaning::Ignored,
        }
    }

    /// What this is if it is an object.
    pub fn as_object(self) -> Meaning {
        match self {
            Meaning::Content | Meaning::Part => Meaning::Part,
            Meaning::Request | Meaning::Metadata | Meaning::Message => self,
            Meaning::Tools | Meaning::Verbatim | Meaning::Media => self,
            _ => Meaning::Ignored,
        }
    }

    /// Is a string of this meaning text of the prompt or of the tools?
    pub fn is_text(self) -> bool {
        use Meaning::{Content, Input, Part, Prompt, System, Text, Tools, Verbatim};
        matches!(self, Content | Input | Part | Prompt | System | Text | Tools | Verbatim)
    }

    /// Is all within it text, the syntax as well?
    pub fn is_verbatim(self) -> bool {
        matches!(self, Meaning::Tools | Meaning::Verbatim)
    }
}

/// Who speaks in a message. The numbers go into the hash of the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Unknown = 0,
    System = 1,
    User = 2,
    Assistant = 3,
    Tool = 4,
}

impl Role {
    pub fn named(name: &[u8]) -> Role {
        const NAMES: &[(&[u8], Role)] = &[
            (b"user", Role::User),
            (b"assistant", Role::Assistant),
            (b"system", Role::System),
            (b"developer", Role::System),
            (b"tool", Role::Tool),
            (b"function", Role::Tool),
        ];
        find(NAMES, name).unwrap_or_default()
    }
}

/// What a part is besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Image,
    Audio,
}

impl Medium {
    /// By the part's type, or by the key of what is in it: some clients leave the type out.
    pub fn named(name: &[u8]) -> Option<Medium> {
        const NAMES: &[(&[u8], Medium)] = &[
            (b"image_url", Medium::Image),
            (b"input_image", Medium::Image),
            (b"image", Medium::Image),
            (b"input_audio", Medium::Audio),
            (b"audio_url", Medium::Audio),
            (b"audio", Medium::Audio),
        ];
        find(NAMES, name)
    }
}
