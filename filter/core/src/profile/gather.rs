//! What is gathered from the values of a request, each by its meaning.

use super::fields::{Fields, ModelName, SessionName, Word};
use super::prefix::{Prefix, TextHash};
use super::section::Section;
use super::shapes::{Api, Meaning, Medium, Role};
use super::stack::Stack;
use super::words::Words;
use super::{Body, Profile};

#[derive(Clone, Debug)]
pub(super) struct Gathered {
    api: Api,
    fields: Fields,
    tools: Section,
    system: Section,
    turns: Section,
    /// Which of the three the member of the request that is being read belongs to.
    section: Meaning,
    word: Word,
    model: ModelName,
    session: SessionName,
    media: TextHash,
    role: Role,
}

impl Gathered {
    pub fn new(api: Api) -> Gathered {
        Gathered {
            api,
            fields: Fields::default(),
            tools: Section::default(),
            system: Section::default(),
            turns: Section::default(),
            section: Meaning::Ignored,
            word: Word::default(),
            model: ModelName::default(),
            session: SessionName::default(),
            media: TextHash::default(),
            role: Role::Unknown,
        }
    }

    pub fn profile(&self, body: Body) -> Profile {
        let fields = &self.fields;
        Profile {
            body,
            model: fields.model.clone(),
            stream: fields.stream,
            max_tokens: fields.max_completion_tokens.or(fields.max_tokens),
            choices: fields.choices,
            user: fields.safety_identifier.or(fields.user),
            cache_key: fields.cache_key,
            text: self.system.counts.plus(&self.turns.counts),
            tools: self.tools.counts,
            token_ids: self.turns.token_ids,
            messages: self.turns.messages,
            images: self.system.images.saturating_add(self.turns.images),
            audios: self.system.audios.saturating_add(self.turns.audios),
            ends_in_medium: false,
            prefix: Prefix::chain(&self.tools, &self.system, &self.turns),
        }
    }

    fn section(&mut self) -> &mut Section {
        match self.section {
            Meaning::Tools => &mut self.tools,
            Meaning::System => &mut self.system,
            _ => &mut self.turns,
        }
    }

    /// The first character of a value, or what stands between values, where JSON is part of the
    /// prompt.
    pub fn syntax(&mut self, byte: u8) {
        match byte {
            // A string's other quote does not come here.
            b'"' => self.section().add_syntax(2),
            b'{' | b'}' | b'[' | b']' | b':' | b',' => self.section().add_syntax(1),
            _ => {}
        }
    }

    pub fn opened(&mut self, meaning: Meaning) {
        if meaning == Meaning::Message {
            self.role = Role::Unknown;
            self.turns.add_message();
        }
    }

    pub fn closed(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Message => self.turns.end_message(self.role),
            // Of token ids, which are a prompt only together.
            Meaning::Prompt if self.turns.first_turn.is_none() => {
                self.turns.end_message(Role::User);
            }
            Meaning::System => self.system.end_message(Role::System),
            _ => {}
        }
    }

    pub fn begin_key(&mut self) {
        self.word = Word::default();
    }

    pub fn key_text(&mut self, object: Meaning, text: &[u8]) {
        if object.is_verbatim() {
            self.section().add_text(text);
        } else {
            self.word.push(text);
        }
    }

    /// What the value of the key is.
    pub fn end_key(&mut self, stack: &mut Stack) -> Meaning {
        let object = stack.top();
        let meaning = object.member(self.api, self.word.get());
        match object {
            Meaning::Request => self.begin_member(meaning),
            Meaning::Tools | Meaning::Verbatim => self.section().end_token(),
            Meaning::Part => self.note_medium(stack),
            _ => {}
        }
        meaning
    }

    /// A member of the request: if there was one of that name before, it does not count.
    fn begin_member(&mut self, meaning: Meaning) {
        let fields = &mut self.fields;
        self.section = meaning;
        match meaning {
            Meaning::Model => fields.model = None,
            Meaning::Stream => fields.stream = None,
            Meaning::MaxTokens => fields.max_tokens = None,
            Meaning::MaxCompletionTokens => fields.max_completion_tokens = None,
            Meaning::Choices => fields.choices = None,
            Meaning::User | Meaning::Metadata => fields.user = None,
            Meaning::SafetyIdentifier => fields.safety_identifier = None,
            Meaning::CacheKey => fields.cache_key = None,
            Meaning::Tools => self.tools = Section::default(),
            Meaning::System => self.system = Section::default(),
            Meaning::Messages | Meaning::Input | Meaning::Prompt => {
                self.turns = Section::default();
            }
            _ => {}
        }
    }

    fn note_medium(&mut self, stack: &mut Stack) {
        if let Some(medium) = Medium::named(self.word.get()) {
            if stack.is_first(medium) {
                self.section().add_medium(medium);
            }
        }
    }

    pub fn begin_string(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Input | Meaning::Prompt => self.turns.add_message(),
            Meaning::Role | Meaning::PartType => self.word = Word::default(),
            Meaning::Model => self.model = ModelName::default(),
            Meaning::User | Meaning::SafetyIdentifier | Meaning::CacheKey => {
                self.session = SessionName::default();
            }
            Meaning::Media => self.media = TextHash::default(),
            _ => {}
        }
    }

    pub fn string_text(&mut self, meaning: Meaning, text: &[u8]) {
        match meaning {
            Meaning::Role | Meaning::PartType => self.word.push(text),
            Meaning::Model => self.model.push(text),
            Meaning::User | Meaning::SafetyIdentifier | Meaning::CacheKey => {
                self.session.push(text);
            }
            Meaning::Media => self.media.add(&Words::of(text), None),
            _ if meaning.is_text() => self.section().add_text(text),
            _ => {}
        }
    }

    pub fn end_string(&mut self, meaning: Meaning, stack: &mut Stack) {
        match meaning {
            Meaning::Role => self.role = Role::named(self.word.get()),
            Meaning::PartType => self.note_medium(stack),
            Meaning::Model => self.fields.model = self.model.take(),
            Meaning::User => self.fields.user = self.session.hash(),
            Meaning::SafetyIdentifier => self.fields.safety_identifier = self.session.hash(),
            Meaning::CacheKey => self.fields.cache_key = self.session.hash(),
            Meaning::Input | Meaning::Prompt => self.turns.end_message(Role::User),
            Meaning::System => self.system.end_message(Role::System),
            Meaning::Tools | Meaning::Verbatim => self.section().end_token(),
            Meaning::Media => {
                let hash = self.media.value();
                self.section().add_unread(&hash.to_le_bytes());
            }
            _ => {}
        }
    }

    pub fn number_text(&mut self, meaning: Meaning, text: &[u8]) {
        match meaning {
            Meaning::Tools | Meaning::Verbatim => self.section().add_text(text),
            Meaning::Prompt => self.turns.add_unread(text),
            _ => {}
        }
    }

    pub fn end_number(&mut self, meaning: Meaning, value: Option<u32>) {
        match meaning {
            Meaning::MaxTokens => self.fields.max_tokens = value,
            Meaning::MaxCompletionTokens => self.fields.max_completion_tokens = value,
            Meaning::Choices => self.fields.choices = value,
            Meaning::Tools | Meaning::Verbatim => self.section().end_token(),
            Meaning::Prompt => self.turns.end_token_id(),
            _ => {}
        }
    }

    pub fn literal(&mut self, meaning: Meaning, text: &[u8], value: Option<bool>) {
        match meaning {
            Meaning::Stream => self.fields.stream = value,
            Meaning::Tools | Meaning::Verbatim => {
                self.section().add_text(text);
                self.section().end_token();
            }
            _ => {}
        }
    }
}
